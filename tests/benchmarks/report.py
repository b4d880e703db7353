"""CPU time and largest memory of `raypipe report`, over runs that are made here.

    python tests/benchmarks/report.py [--queries 1000] [--depth 1000] [--rounds 3] [--keep DIR]

The collection has 20,000 made-up passages; two runs are read, and a model of two layers reranks the
first 20 candidates of one of them. 20 passages of a query are judged. Each round is a process of
its own; its memory is the largest that the system saw. With --keep the workspace stays, so that
another version can be measured over the same one: then only `report` is run.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HELPERS = Path(__file__).parent.parent / "helpers"
NUM_PASSAGES = 20_000
NUM_JUDGED = 20
K0 = 20
WORDS = "index shard lease rank query passage score merge model token batch depth".split()
RECIPE = """
format: 1
name: report
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
models: {{tiny: {{path: {folder}/mono}}}}
stages:
  one: {{do: read, runs: {{test: {folder}/one.trec}}}}
  two: {{do: read, runs: {{test: {folder}/two.trec}}}}
  mono: {{do: score, run: one, model: tiny, k0: {k0}}}
evaluate: {{measures: [nDCG@10, RR@10, AP, R@1000], baseline: one}}
resources: {{backend: inline, device: cpu, threads: 1}}
"""


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)).absolute()
        if not (folder / "work").exists():
            _make(folder, options.queries, options.depth)
        rounds = [_round(folder / "work") for _ in range(options.rounds)]
    seconds, mib = zip(*rounds, strict=True)
    found = {
        "queries": options.queries,
        "depth": options.depth,
        "cpu_seconds": {"median": statistics.median(seconds), "of": seconds},
        "peak_mib": {"median": statistics.median(mib), "of": mib},
    }
    print(json.dumps(found))
    return 0


def _round(work: Path) -> tuple[float, int]:
    """Seconds of CPU of one `raypipe report`, and its largest memory in MiB."""
    process = subprocess.Popen(
        [sys.executable, "-m", "raypipe", "report", str(work)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, status
    return round(used.ru_utime + used.ru_stime, 2), used.ru_maxrss >> 10


def _make(folder: Path, num_queries: int, depth: int) -> None:
    """Collection, queries, judgements, two runs and the finished workspace."""
    sys.path.insert(0, str(HELPERS))
    from tiny import make_tiny_reranker

    rng = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    texts = (" ".join(rng.choices(WORDS, k=rng.randint(8, 40))) for _ in range(NUM_PASSAGES))
    _write(folder / "passages.tsv", (f"p{n}\t{text}" for n, text in enumerate(texts)))
    names = [f"q{n}" for n in range(num_queries)]
    _write(folder / "queries.tsv", (f"{q}\t{' '.join(rng.sample(WORDS, 4))}" for q in names))
    lists = {q: rng.sample(range(NUM_PASSAGES), depth) for q in names}
    judged = {q: rng.sample(lists[q], min(NUM_JUDGED, depth)) for q in names}
    _write(
        folder / "qrels.txt",
        (f"{q} 0 p{p} {rng.randint(0, 2)}" for q, own in judged.items() for p in own),
    )
    for name, share in (("one", 0.5), ("two", 0.8)):
        with (folder / f"{name}.trec").open("w") as file:
            for q, own in lists.items():
                kept = sorted(own, key=lambda p: rng.random() - share * (p in judged[q]))
                file.writelines(
                    f"{q} Q0 p{p} {n} {depth - n / 2} x\n" for n, p in enumerate(kept, 1)
                )
    make_tiny_reranker(folder / "mono", seed=1)
    (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder, k0=K0))
    command = ["pipeline", str(folder / "recipe.yaml"), "--out", str(folder / "work")]
    subprocess.run([sys.executable, "-m", "raypipe", *command], check=True)


def _write(path: Path, lines) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
