"""The choice of the recipe `english`, and its report (docs/experiments/english.md).

    RAYPIPE_DATA=FOLDER python tests/benchmarks/general/english.py OUT choose
    RAYPIPE_DATA=FOLDER python tests/benchmarks/general/english.py OUT report RUN K0 BLEND

OUT has a folder for each collection with its stores, runs and scores; a second invocation reuses
them. `choose` prints the dev value of every system, `report` that of the chosen one elsewhere.
"""

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from compare import Values, _first, _min_max, _on, _sum, values
from macro import macro
from outside import (
    DATA,
    OUTSIDE,
    RESOURCES,
    SEED,
    Outside,
    Run,
    log_odds,
    read_run,
    recipe_of,
    write_queries,
)
from sources import medquad, write

import raypipe

DEPTH = 1000
MODEL = "general-mono"
MOST = 50
"""The largest k0, and the candidates that are scored."""
K0 = (10, 20, 35, 50)
BLENDS = (0, 1, 2, 4, 6, 9, 12, 18)
SUMS = {"sum-1-3": [1, 3], "sum-1-2": [1, 2], "sum-1-1": [1, 1], "sum-2-1": [2, 1]}
"""Weights of BM25 and MiniLM."""
FIRST = ("bm25", "dense", "rrf", *SUMS)
DEV = {"python-docs": 200, "medquad": 100}
"""Dev queries of each set: a draw."""


def main(out: Path, chosen: tuple[str, int, float] | None) -> None:
    """Print the values of every system, or compare the chosen one with the simple ones."""
    RESOURCES.update({"precision": "fp32", "threads": 2})
    if chosen is None:
        _choose({name: _systems(name, out, FIRST, K0) for name in _dev(out)})
        return
    run, k0, blend = chosen
    OUTSIDE["wikiqa"] = replace(OUTSIDE["wikiqa"], measure="nDCG@10", lists=False)
    for name in ("nfcorpus", "car", "wikiqa"):
        OUTSIDE[name] = replace(OUTSIDE[name], sample=60)
    found = {}
    for name in OUTSIDE:
        write_queries(name, out / name)
        found[name] = _systems(name, out, sorted({"bm25", "dense", "rrf", run}), sorted({35, k0}))
    mine = _name(run, k0, blend)
    others = ["bm25", "dense", "rrf", run, _name("rrf", 35, 6)]
    others += [_name(run, 35, each) for run in ("bm25", "rrf") for each in BLENDS]
    for name, measured in found.items():
        for order in dict.fromkeys([mine, *others]):
            mean = np.mean(list(measured[order].values()))
            print(f"{name}, {order}: nDCG@10 {mean:.4f} (n={len(measured[order])})")
    for other in dict.fromkeys(others):
        deltas = [
            np.array([m[mine][q] - m[other][q] for q in sorted(m[other])]) for m in found.values()
        ]
        each = macro(deltas)
        own = ", ".join(f"{n} {d.mean():+.4f}" for n, d in zip(found, deltas, strict=True))
        print(f"{mine} less {other}: {each.mean:+.4f} [{each.low:+.4f}, {each.high:+.4f}] ({own})")


def _choose(found: dict[str, Values]) -> None:
    means = {
        order: [float(np.mean(list(each[order].values()))) for each in found.values()]
        for order in next(iter(found.values()))
    }
    print("system", *found, "mean")
    for order in sorted(means, key=lambda order: -sum(means[order])):
        print(order, *(f"{mean:.4f}" for mean in means[order]), f"{np.mean(means[order]):.6f}")


def _systems(name: str, out: Path, first: Sequence[str], depths: Sequence[int]) -> Values:
    """Every order over the first stages, each with its first max(depths) candidates."""
    runs = _first_stages(name, out)
    near = {key: _first(runs[key], max(depths)) for key in first}
    queries = {query for run in near.values() for query in run}
    every = {q: {p: 0.0 for run in near.values() for p in run.get(q, {})} for q in sorted(queries)}
    f = log_odds(name, out, MODEL, every)
    orders = dict[str, Run](near)
    for (key, run), k0 in itertools.product(near.items(), depths):
        cut = _first(run, k0)
        z, own = _min_max(cut), _on(f, cut, None)
        for a in BLENDS:
            weighted = {q: {p: a * v for p, v in each.items()} for q, each in z.items()}
            orders[_name(key, k0, a)] = _sum(weighted, own)
    return values(name, out, orders)


def _name(run: str, k0: int, blend: float) -> str:
    return f"{run}/{MODEL}/k0={k0}/blend={blend:g}"


def _first_stages(name: str, out: Path) -> dict[str, Run]:
    fuse = {"do": "fuse", "runs": ["bm25", "dense"], "depth": DEPTH}
    recipe = recipe_of(name, out) | {
        "models": {"minilm": {"path": "minilm"}},
        "resources": {"backend": "inline", "precision": "fp32", "threads": 2},
        "stages": {
            "lucene": {"do": "index"},
            "embeddings": {"do": "encode", "model": "minilm"},
            "bm25": {"do": "search", "index": "lucene", "depth": DEPTH},
            "dense": {"do": "search", "index": "embeddings", "depth": DEPTH},
            "rrf": fuse | {"method": "rrf"},
        }
        | {key: fuse | {"method": "weighted", "weights": of} for key, of in SUMS.items()},
    }
    raypipe.run(recipe, out / name / "first")
    return {key: read_run(out / name / "first/runs/test" / f"{key}.trec") for key in FIRST}


def _dev(out: Path) -> list[str]:
    """The dev sets; writes their queries, and makes them known to outside.py."""
    source = out / "source-medquad"
    write(source, medquad(DATA / "medquad-liveqa", Random(SEED)))
    recipe = {"format": 1, "name": "docs", "collection": {"format": "python-docs"}}
    recipe |= {"queries": {"dev": {"builtin": "dev"}}, "stages": {"lucene": {"do": "index"}}}
    raypipe.run(recipe, out / "docs")
    docs = out / "docs/python-docs"
    passages = {"format": "msmarco-v1", "input": str(DATA / "medquad-liveqa/collection.tsv.gz")}
    files = {
        "python-docs": ({"format": "python-docs"}, docs, "queries.dev.tsv", "qrels.dev.txt"),
        "medquad": (passages, source, "queries.dev.tsv", "qrels.dev.txt"),
    }
    for name, (collection, folder, queries, qrels) in files.items():
        paths = str(folder / queries), str(folder / qrels)
        OUTSIDE[name] = Outside(collection, *paths, candidates=MOST, sample=DEV[name])
        write_queries(name, out / name)
    return list(files)


if __name__ == "__main__":
    given = sys.argv[3:]
    main(
        Path(sys.argv[1]).absolute(),
        (given[0], int(given[1]), float(given[2])) if sys.argv[2] == "report" else None,
    )
