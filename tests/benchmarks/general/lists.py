"""The training lists of general_rerankers.md: runs without passages that must not be there.

    python tests/benchmarks/general/lists.py OUT WORKSPACE

OUT is a folder that sources.py wrote, WORKSPACE that of
`raypipe pipeline docs/experiments/general-source.yaml` over it.
OUT/lists then holds the runs of the training queries, the queries, and anchors.txt: for each query
one of the teacher's first ten passages, which stands where a training set names a relevant one.
SPLIT.tsv and SPLIT.RUN.trec are the queries of a split alone, train or unlabelled, and their runs.
"""

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from random import Random

RUNS = ("bm25", "dense", "fused", "taught")
SEED = 18
ANCHORS = 10
"""First ranks of the teacher from which a query's anchor is drawn."""
SHORTEST = 20
"""Passages of a list that has an anchor."""


def queries_of(folder: Path) -> dict[str, str]:
    """The training queries, those with judgements first: id -> line."""
    files = [folder / f"queries.{split}.tsv" for split in ("train", "unlabelled")]
    lines = [line for path in files if path.exists() for line in path.read_text().splitlines()]
    return {line.split("\t")[0]: line for line in lines}


def lists_of(
    path: Path, kept: dict[str, str], own: dict[str, str], held: set[str]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(query, its passages with their scores) of each training query, best first."""
    with path.open() as file:
        lines = (line.split() for line in file)
        for query, found in groupby(lines, key=lambda fields: fields[0]):
            if query in kept:
                passages = [(fields[2], fields[4]) for fields in found]
                yield query, [p for p in passages if p[0] not in held and p[0] != own.get(query)]


def write_split(out: Path, split: str, reached: set[str]) -> None:
    """The queries of one split that the teacher reaches, and their lines of every run."""
    lines = (out / f"queries.{split}.tsv").read_text().splitlines()
    lines = [line for line in lines if line.split("\t")[0] in reached]
    (out / "lists" / f"{split}.tsv").write_text("".join(f"{line}\n" for line in lines))
    own = {line.split("\t")[0] for line in lines}
    for run in RUNS:
        with (out / f"lists/{run}.trec").open() as file:
            kept = [line for line in file if line.split(" ", 1)[0] in own]
        (out / f"lists/{split}.{run}.trec").write_text("".join(kept))


def main(out: Path, workspace: Path) -> None:
    """Write OUT/lists."""
    kept = queries_of(out)
    own = dict(line.split("\t") for line in (out / "own.tsv").read_text().splitlines())
    held = set((out / "held.txt").read_text().splitlines())
    draw, lists = Random(SEED), out / "lists"
    lists.mkdir(exist_ok=True)
    for run in RUNS:
        with (lists / f"{run}.trec").open("w") as file:
            for query, passages in lists_of(workspace / f"runs/all/{run}.trec", kept, own, held):
                for rank, (passage, score) in enumerate(passages, start=1):
                    file.write(f"{query} Q0 {passage} {rank} {score} {run}\n")
    taught = dict(lists_of(workspace / "runs/all/taught.trec", kept, own, held))
    with (lists / "anchors.txt").open("w") as file:
        for query, passages in taught.items():
            if len(passages) >= SHORTEST:
                file.write(f"{query} 0 {draw.choice(passages[:ANCHORS])[0]} 1\n")
    reached = [line for query, line in kept.items() if query in taught]
    (lists / "queries.tsv").write_text("".join(f"{line}\n" for line in reached))
    for split in ("train", "unlabelled"):
        if (out / f"queries.{split}.tsv").exists():
            write_split(out, split, set(taught))
    print(f"{out.name}: {len(taught)} lists")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
