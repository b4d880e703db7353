"""Peak memory of each kind of work as its input grows, beside the ceilings that docs state.

    python tests/benchmarks/memory.py [--sizes 10000 100000 1000000] [--only evaluate] [--out FILE]

Each trial runs in a process of its own, without Ray. Its memory is what it holds beyond files:
pages of mapped embeddings are the system's to drop. The largest value seen at 100 looks a second
counts. A trial above its ceiling ends the benchmark with exit code 1.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
CEILINGS = {
    "prepare": 300,
    "encode": 450,
    "search": 450,
    "merge": 250,
    "fuse": 500,
    "evaluate": 400,
    "driver": 300,
}
"""MiB at every size; `driver` is a pipeline of `size` shards, at most 10,000."""
WORDS = "index shard lease rank query passage score merge model token batch depth".split()
PREPARE = """
format: 1
name: memory
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv}}}}
stages: {{}}
resources: {{backend: inline, device: cpu, threads: 1{more}}}
"""
RECIPE = PREPARE.replace(
    "stages: {{}}",
    "models: {{tiny: {{path: {folder}/tiny}}}}\nstages:\n  embeddings: {{do: encode, model: tiny}}",
)


NUM_QUERIES = 200


def main() -> int:
    options = _options()
    if options.trial:
        globals()[options.trial](Path(options.folder), options.size)
        return 0
    lines = ["| work | size | peak MiB | ceiling MiB |", "|---|---|---|---|"]
    above = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        for size in options.sizes:
            folder = Path(scratch) / str(size)
            folder.mkdir()
            for name in options.only or CEILINGS:
                rows = min(size, 10_000) if name == "driver" else size
                ceiling, found = CEILINGS[name], peak(name, rows, folder)
                lines.append(f"| {name} | {rows:,} | {found:.0f} | {ceiling} |")
                print(lines[-1], flush=True)
                above += [lines[-1]] if found > ceiling else []
    text = "\n".join(lines) + "\n"
    if options.out:
        Path(options.out).write_text(text)
    print(f"{len(above)} above the ceiling")
    return 1 if above else 0


def peak(trial: str, size: int, folder: Path) -> float:
    """MiB of anonymous memory at most, of a process that runs the trial."""
    if trial in SETUP:
        assert _started(SETUP[trial], size, folder).wait() == 0
    process = _started(trial, size, folder)
    found, status = 0, Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        told = re.search(r"RssAnon:\s+(\d+) kB", status.read_text())
        found = max(found, int(told[1]) if told else 0)
        time.sleep(0.01)
    if process.returncode:
        raise SystemExit(f"{trial} at {size:,}: exit {process.returncode}")
    return found / 1024


def _started(function: str, size: int, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--trial", function, "--size", str(size)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT.parent}:{ROOT / 'helpers'}"}
    command += ["--folder", str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def prepare(folder: Path, size: int) -> None:
    pipeline(folder, until="passages")


def encode(folder: Path, size: int) -> None:
    """The collection that `prepare` read, by 2 layers of width 32 with random weights."""
    pipeline(folder, until="embeddings")


def driver(folder: Path, size: int) -> None:
    """As many shards as passages."""
    pipeline(folder / "many", until="passages", more=", shard_rows: 1")


def search(folder: Path, size: int) -> None:
    """768 dimensions, 200 queries, depth 1,000, four spans."""
    stores, stage, _ = _search(folder)
    stores.finished(stage, _sizing(), store="parts")


def merge(folder: Path, size: int) -> None:
    """The parts of `search`."""
    from raypipe.stages.search import merge_stage

    stores, stage, sides = _search(folder)
    parts = stores.reopened("parts", stage.spec.fingerprint())
    stores.finished(merge_stage("dense", parts, sides, 1000), _sizing(), store="run")


def _search(folder: Path):
    """The stores that `_write_vectors` made, the stage over them, and what a run is of."""
    from given_stores import Stores

    from raypipe.stages.search import PartsStage
    from raypipe.stages.tables import Sides

    stores = Stores(folder)
    made = json.loads((folder / "made.json").read_text())
    vectors, queries, texts, passages = (stores.reopened(*place) for place in made)
    return stores, PartsStage("dense", vectors, queries, 1000), Sides(texts, passages)


def _sizing():
    from raypipe.stages.stage import Sizing

    return Sizing(num_actors=2)


def write_vectors(folder: Path, size: int) -> None:
    """Random embeddings in shards of 50,000 rows, and random queries."""
    import numpy as np
    from given_stores import Stores

    rng = np.random.default_rng(1)
    stores, step = Stores(folder), 50_000
    lengths = [min(step, size - first) for first in range(0, size, step)]
    arrays = (rng.standard_normal((n, 768), np.float32).astype(np.float16) for n in lengths)
    made = [
        stores.vectors(*arrays),
        stores.vectors(rng.standard_normal((NUM_QUERIES, 768), np.float32)),
        stores.queries(*"x" * NUM_QUERIES),
        stores.passages("y"),
    ]
    places = [(one.manifest.store, one.manifest.fingerprint) for one in made]
    (folder / "made.json").write_text(json.dumps(places))


def fuse(folder: Path, size: int) -> None:
    """Two runs of `size` lines."""
    from raypipe.driver.verbs.fuse_files import fuse_files

    runs = [folder / "1.trec", folder / "2.trec"]
    fuse_files(runs, method="rrf", depth=1000, out=folder / "fused")


def evaluate(folder: Path, size: int) -> None:
    """A run of `size` lines in a TREC file, depth 1,000."""
    from raypipe.cli.main import run

    path = str(folder / "1.trec")
    assert run(["evaluate", path, "--qrels", str(folder / "qrels.txt")])[0] == 0


def write_run(folder: Path, size: int) -> None:
    """Two runs of `size` lines, depth 1,000, and judgements of one passage a query."""
    import numpy as np

    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        with (folder / f"{seed}.trec").open("w") as out:
            for query in range(-(-size // 1000)):
                rows = rng.choice(8_841_823, min(1000, size - query * 1000), replace=False)
                lines = enumerate(rows.tolist(), 1)
                out.writelines(f"{query} Q0 {p} {rank} {1 / rank:.6f} x\n" for rank, p in lines)
    judged = (f"{query} 0 {query} 1\n" for query in range(-(-size // 1000)))
    (folder / "qrels.txt").write_text("".join(judged))


SETUP = {
    "prepare": "passages",
    "driver": "passages_of_driver",
    "search": "write_vectors",
    "fuse": "write_run",
    "evaluate": "write_run",
}
"""What makes a trial's input, in a process that is not measured."""


def passages_of_driver(folder: Path, size: int) -> None:
    (folder / "many").mkdir(exist_ok=True)
    passages(folder / "many", size)


def passages(folder: Path, size: int) -> None:
    """Passages of 20 words, a query and a tiny model."""
    rng = random.Random(1)
    with (folder / "passages.tsv").open("w") as out:
        for row in range(size):
            out.write(f"{row}\t{' '.join(rng.choices(WORDS, k=20))} {row}\n")
    (folder / "queries.tsv").write_text("1\tthe lease of a shard\n")
    if not (folder / "tiny").exists():
        command = "import sys; from tiny import make_tiny_bert; from pathlib import Path; "
        command += "make_tiny_bert(Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", command, str(folder / "tiny")], check=True)


def pipeline(folder: Path, *, until: str, more: str = "") -> None:
    from raypipe.config.load import load_recipe
    from raypipe.driver.execute import Watcher
    from raypipe.driver.pipeline import Options, run_pipeline

    text = (PREPARE if until == "passages" else RECIPE).format(folder=folder, more=more)
    recipe = load_recipe(text, source="memory")
    run_pipeline(recipe, folder / "work", Options(), watcher=Watcher(), say=lambda line: None)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--only", nargs="+", choices=list(CEILINGS))
    parser.add_argument("--out")
    parser.add_argument("--scratch", default=None)
    parser.add_argument("--trial")
    parser.add_argument("--size", type=int)
    parser.add_argument("--folder")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
