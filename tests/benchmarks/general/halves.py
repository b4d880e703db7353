"""The judged training queries of general_rerankers.md in halves, for cross-fitted candidates.

    python tests/benchmarks/general/halves.py GENERAL

GENERAL holds what lists.py wrote. Of docs and medquad, GENERAL/SOURCE/lists then also holds
half-0.tsv and half-1.tsv, the queries whose id has an even or an odd checksum, with their lines of
every run, and asked-0 and asked-1: the first queries of a half with a relevant passage among the
first 20 of the fused run, and those 20.
"""

import sys
from itertools import groupby
from pathlib import Path
from zlib import crc32

SOURCES = {"docs": 500, "medquad": 250}
"""Queries of each half that are asked."""
RUNS = ("bm25", "dense", "fused")
FIRST = 20


def main(general: Path) -> None:
    for name, most in SOURCES.items():
        lists = general / name / "lists"
        lines = (lists / "train.tsv").read_text().splitlines()
        for half in (0, 1):
            own = {_id(line): line for line in lines if crc32(_id(line).encode()) % 2 == half}
            (lists / f"half-{half}.tsv").write_text("".join(f"{e}\n" for e in own.values()))
            for run in RUNS:
                with (lists / f"train.{run}.trec").open() as file:
                    kept = [line for line in file if line.split(" ", 1)[0] in own]
                (lists / f"half-{half}.{run}.trec").write_text("".join(kept))
            fused = (lists / f"half-{half}.fused.trec").read_text().splitlines()
            asked = _asked(fused, _relevant(general / name / "qrels.train.txt"), most)
            (lists / f"asked-{half}.tsv").write_text("".join(f"{own[q]}\n" for q in asked))
            (lists / f"asked-{half}.trec").write_text(
                "".join(f"{e}\n" for q in asked.values() for e in q)
            )
            print(f"{name}, half {half}: {len(own):,} queries, {len(asked)} asked")


def _id(line: str) -> str:
    return line.split("\t", 1)[0]


def _relevant(path: Path) -> set[tuple[str, str]]:
    fields = (line.split() for line in path.read_text().splitlines())
    return {(query, passage) for query, _, passage, grade in fields if int(grade) > 0}


def _asked(fused: list[str], relevant: set[tuple[str, str]], most: int) -> dict[str, list[str]]:
    found = dict[str, list[str]]()
    for query, lines in groupby(fused, key=lambda line: line.split(" ", 1)[0]):
        first = list(lines)[:FIRST]
        if len(found) < most and any((query, line.split()[2]) in relevant for line in first):
            found[query] = first
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
