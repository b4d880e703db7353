"""Does this machine have what raypipe needs: each thing tried, not only looked for."""

import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from raypipe.errors import RaypipeError
from raypipe.storage.posix import PosixStorage


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried."""

    name: str
    ok: bool
    told: str


def examine(folder: Path) -> list[Finding]:
    """Every check, in order; `folder` is where a workspace would lie."""
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{platform.python_implementation()} {platform.python_version()}"),
        ("disk", lambda: _disk(folder)),
        ("torch", _torch),
        ("ray", _ray),
        ("model", _model),
        ("java", _java),
        ("lucene", _lucene),
    ]
    return [_tried(name, check) for name, check in checks]


def _tried(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except (RaypipeError, ImportError, OSError) as error:
        return Finding(name, False, str(error))


def _disk(folder: Path) -> str:
    free = PosixStorage(folder.absolute()).free_bytes() or 0
    return f"{free / 1e9:.0f} GB free at {folder}"


def _torch() -> str:
    from raypipe.driver.devices import choose

    return choose().line().removeprefix("device: ")


def _ray() -> str:
    import ray

    return str(ray.__version__)


def _model() -> str:
    from raypipe.models.device import numerics_class
    from raypipe.models.encoder import load_encoder
    from raypipe.models.loading import open_tokenizer, resolve_model
    from raypipe.text.tokenize import tokenize_batch

    model = resolve_model("minilm")
    texts = ["what is a lease", "a shard is committed once"] * 8
    pieces = tokenize_batch(open_tokenizer(model), texts, max_pieces=64)
    vectors = load_encoder(model).encode(*pieces, side="passage")
    return f"packaged MiniLM encoded {len(vectors)} texts, {numerics_class('cpu')}"


def _java() -> str:
    from raypipe.stages.lucene_java import find_java

    java = find_java()
    return f"{java.version} from {java.source}"


def _lucene() -> str:
    import pyarrow as pa

    from raypipe import schema
    from raypipe.stages.lucene_index import build_index
    from raypipe.stages.lucene_search import LuceneSearcher

    passages = pa.table([["a", "b"], ["zebra crossing", "horses"]], schema=schema.PASSAGES)
    with tempfile.TemporaryDirectory() as folder:
        build_index(lambda: [passages], Path(folder) / "index")
        rows, _ = LuceneSearcher(Path(folder) / "index").search("horse", k1=0.9, b=0.4, depth=1)
    return f"indexed 2 passages and found {rows.tolist()} of [1]"
