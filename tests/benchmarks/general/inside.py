"""The orders of general_rerankers.md on sources like those of the training.

    python tests/benchmarks/general/inside.py OUT MODEL dev GENERAL
    python tests/benchmarks/general/inside.py OUT MODEL test GENERAL QUICKSTART

GENERAL holds what sources.py wrote and the workspaces runs-SOURCE, QUICKSTART that of `raypipe
pipeline quickstart queries.test.builtin=test`. Prints each order's nDCG@10 over the first 20 of the
fused run, and for dev the mean by which the scale of an update is chosen: of f's and s's order,
over both sources.
"""

import sys
from pathlib import Path

import numpy as np
from compare import BLEND, _first, _min_max, _on, _sum, values
from outside import OUTSIDE, Outside, Run, lines_of, log_odds, read_run

CANDIDATES = 20
FIRST = {"dev": {"docs": 50, "medquad": 25}, "test": {"quickstart": 100, "medquad": 100}}
"""Queries of a source, by split: the first of its file that have a candidate."""


def files(split: str, general: Path, quickstart: Path | None) -> dict[str, tuple[Path, Path, Path]]:
    """Source -> its collection, the folder of its queries, its runs."""
    found = {}
    for name in FIRST[split]:
        if name == "quickstart":
            assert quickstart is not None
            own = quickstart / "python-docs"
            found[name] = own / "passages.tsv", own, quickstart / "runs/test"
        else:
            own = general / name
            found[name] = own / "collection.tsv", own, general / f"runs-{name}/runs/all"
    return found


def orders(name: str, out: Path, model: str, split: str, own: Path, runs: Path) -> dict[str, Run]:
    """Every order of the candidates; writes queries.tsv and qrels.txt for them."""
    fused, bm25, dense = (read_run(runs / f"{each}.trec") for each in ("fused", "bm25", "dense"))
    lines = [
        line for line in lines_of(own / f"queries.{split}.tsv") if line.split("\t")[0] in fused
    ]
    lines = lines[: FIRST[split][name]]
    kept = {line.split("\t")[0] for line in lines}
    (out / name).mkdir(parents=True, exist_ok=True)
    (out / name / "queries.tsv").write_text("".join(f"{line}\n" for line in lines))
    qrels = [line for line in lines_of(own / f"qrels.{split}.txt") if line.split()[0] in kept]
    (out / name / "qrels.txt").write_text("".join(f"{line}\n" for line in qrels))
    near = _first({query: fused[query] for query in kept}, CANDIDATES)
    f = _on(log_odds(name, out, model, near), near, None)
    z = {q: {p: BLEND * v for p, v in found.items()} for q, found in _min_max(near).items()}
    here, there = _on(bm25, near, 0.0), _on(dense, near, None)
    return {
        "fused": near,
        "MiniLM": there,
        "min-max": _sum(_min_max(here), _min_max(there)),
        "f": f,
        "s": _sum(z, f),
    }


def main(out: Path, model: str, split: str, general: Path, quickstart: Path | None) -> None:
    chosen = []
    for name, (collection, own, runs) in files(split, general, quickstart).items():
        queries = {"queries": "", "qrels": "", "candidates": CANDIDATES}
        OUTSIDE[name] = Outside({"format": "msmarco-v1", "input": str(collection)}, **queries)
        measured = values(name, out, orders(name, out, model, split, own, runs))
        for order, each in measured.items():
            mean = float(np.mean(list(each.values())))
            print(f"{split} {name}, {order}: nDCG@10 {mean:.4f} (n={len(each)})")
            chosen += [mean] if order in "fs" else []
    print(f"{split}: mean of f and s over the sources {np.mean(chosen):.4f}")


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        sys.argv[2],
        sys.argv[3],
        Path(sys.argv[4]),
        Path(sys.argv[5]) if len(sys.argv) > 5 else None,
    )
