"""Checks that this machine has what raypipe needs, by trying each thing."""

import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from raypipe.errors import RaypipeError
from raypipe.numerics import STRICT, VARIABLE
from raypipe.storage.posix import PosixStorage

if TYPE_CHECKING:
    from raypipe.models.machine.device import Settled


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one check."""

    name: str
    ok: bool
    result: str
    """The result, or why the check failed; for the user."""


def examine(folder: Path) -> list[Trial]:
    """The result of every check, in order; `folder` is where a workspace would be."""
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{platform.python_implementation()} {platform.python_version()}"),
        ("disk", lambda: _disk(folder)),
        ("torch", _torch),
        ("numerics", _numerics),
        ("ray", _ray),
        ("model", _model),
        ("java", _java),
        ("lucene", _lucene),
    ]
    return [_tried(name, check) for name, check in checks]


def _tried(name: str, check: Callable[[], str]) -> Trial:
    try:
        return Trial(name, True, check())
    except (RaypipeError, ImportError, OSError) as error:
        return Trial(name, False, str(error))


def _disk(folder: Path) -> str:
    free = PosixStorage(folder.absolute()).free_bytes() or 0
    return f"{free / 1e9:.0f} GB free at {folder}"


def _torch() -> str:
    from raypipe.driver.devices import choose

    import_module("torch")  # a CPU is chosen without it, and it may be broken
    return choose().line().removeprefix("device: ")


def _numerics() -> str:
    from raypipe.driver.devices import choose, num_cores
    from raypipe.models.machine.device import BUDGET_TOKENS, bert_shapes, numerics_class, settle

    chosen = choose()
    if chosen.device == "cuda":
        return f"{numerics_class('cuda')}; a model's pass is tested bit by bit when it is opened"
    shapes = bert_shapes(384, 1536) | bert_shapes(768, 3072)  # MiniLM and BERT-base
    counts = sorted({chosen.threads, num_cores()})
    rows = BUDGET_TOKENS[chosen.device]
    by_threads = {n: settle(shapes, device=chosen.device, threads=n, rows=rows) for n in counts}
    return f"{numerics_class(chosen.device)}; {neighbours_line(by_threads)}"


def neighbours_line(by_threads: "Mapping[int, Settled]") -> str:
    """The result for each number of threads, in words."""
    if not all(settled.proven for settled in by_threads.values()):
        return (
            "a row's last bits depend on its neighbours, even with 1 thread: scores are promised "
            f"to 1e-3, not to the bit. With Intel's MKL, unset {VARIABLE} or set it to {STRICT}"
        )
    kept = [threads for threads, settled in by_threads.items() if settled.threads == threads]
    lost = [threads for threads in by_threads if threads not in kept]
    line = f"a row's bytes do not depend on its neighbours with {_threads(kept or [1])}"
    return f"{line}; with {_threads(lost)} they would, so 1 is used instead" if lost else line


def _threads(counts: Sequence[int]) -> str:
    return f"{' and '.join(map(str, counts))} thread{'s' if counts != [1] else ''}"


def _ray() -> str:
    import ray

    return str(ray.__version__)


def _model() -> str:
    from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
    from raypipe.models.load import load_encoder
    from raypipe.text.tokenize import tokenize_batch

    model = resolve_model("minilm")
    texts = ["what is a lease", "a shard is committed once"] * 8
    pieces = tokenize_batch(open_tokenizer(model), texts, max_pieces=64)
    vectors = load_encoder(model).encode(*pieces, side="passage")
    return f"packaged MiniLM encoded {len(vectors)} texts"


def _java() -> str:
    from raypipe.engines.lucene.java import find_java

    java = find_java()
    return f"{java.version} from {java.source}"


def _lucene() -> str:
    import pyarrow as pa

    from raypipe import schema
    from raypipe.engines.lucene.index import build_index
    from raypipe.engines.lucene.search import LuceneSearcher

    passages = pa.table([["a", "b"], ["zebra crossing", "horses"]], schema=schema.PASSAGES)
    with tempfile.TemporaryDirectory() as folder:
        build_index(lambda: [passages], Path(folder) / "index")
        rows, _ = LuceneSearcher(Path(folder) / "index").search("horse", k1=0.9, b=0.4, depth=1)
    return f"indexed 2 passages and found {rows.tolist()} of [1]"
