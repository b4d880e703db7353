"""What a collection of many made-up rows costs without a model: prepare, ids, generations, deltas.

    python tests/benchmarks/rows.py [--rows 10000000] [--out FOLDER]

Each step is a process of its own with one thread: CPU time, time, largest memory, and the files and
bytes that it added below the stores. Rows have 16 words of a vocabulary of 5,000, about 110 bytes.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = """
format: 1
name: rows
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv}}}}
stages: {{given: {{do: read, runs: {{test: {folder}/run.trec}}}}}}
resources: {{backend: inline, device: cpu}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.out is None:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), options.rows)
    else:
        options.out.mkdir(parents=True)
        measure(options.out, options.rows)
    return 0


def measure(folder: Path, num_rows: int) -> None:
    """Print a line a step."""
    (folder / "queries.tsv").write_text("1\tany\n")
    (folder / "run.trec").write_text("1 Q0 p0 1 9 x\n")
    (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder))
    print("| step | CPU s | s | peak MB | files | MB |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    write(folder / "passages.tsv", num_rows)
    raypipe = [sys.executable, "-m", "raypipe"]
    reindex = [*raypipe, "reindex", str(folder / "recipe.yaml"), "--out", str(folder / "work")]
    step(f"from nothing, {num_rows:,} rows", folder, reindex)
    step("nothing changed", folder, reindex)
    change(folder / "passages.tsv")
    step("0.1% changed", folder, reindex)
    step("verify", folder, [*raypipe, "verify", str(folder / "work")])


def write(file: Path, num_rows: int) -> None:
    """The passages, the same at each call."""
    rng = random.Random(1)
    words = [f"w{rng.randrange(10**5)}" for _ in range(5_000)]
    with file.open("w") as lines:
        for row in range(num_rows):
            lines.write(f"p{row}\t{' '.join(rng.choices(words, k=16))}\n")


def change(file: Path) -> None:
    """Another last word in 0.1% of the passages."""
    rng, changed = random.Random(2), file.with_suffix(".next")
    with file.open() as lines, changed.open("w") as others:
        for line in lines:
            others.write(f"{line[:-1]} changed\n" if rng.random() < 0.001 else line)
    changed.replace(file)


def step(name: str, folder: Path, command: list[str]) -> None:
    """Run a command and print what it took; and each store's seconds, from summary.json."""
    before, start = stored(folder), time.monotonic()
    log = (folder / "log").open("w")
    child = subprocess.Popen(command, env=one_thread(), stdout=log, stderr=log)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{name}: {(folder / 'log').read_text()[-2000:]}")
    files, size = (now - then for now, then in zip(stored(folder), before, strict=True))
    figures = (usage.ru_utime + usage.ru_stime, time.monotonic() - start)
    peak = usage.ru_maxrss / 1024
    shown = " | ".join(f"{each:,.1f}" for each in figures)
    print(f"| {name} | {shown} | {peak:,.0f} | {files} | {size / 1e6:,.1f} |", flush=True)
    stages = json.loads((folder / "work" / "summary.json").read_text()).get("stages", {})
    for store, told in stages.items() if "verify" not in command else ():
        computed = told["computed"]
        if computed["rows"] > 1:
            size = computed["bytes"] / 1e6
            print(
                f"| {store} | {computed['cpu_seconds']:,.1f} | {told['seconds']:,.1f} | | "
                f"{told['shards']['planned']} | {size:,.1f} |",
                flush=True,
            )


def one_thread() -> dict[str, str]:
    """This environment, with one thread for each library."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "RAYPIPE_UNPROVED": "1"}


def stored(folder: Path) -> tuple[int, int]:
    """The files below the stores, and their bytes."""
    root = folder / "work" / "stores"
    files = [path for path in root.rglob("*") if path.is_file()] if root.exists() else []
    return len(files), sum(path.stat().st_size for path in files)


if __name__ == "__main__":
    sys.exit(main())
