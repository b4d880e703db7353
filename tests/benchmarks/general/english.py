"""The rule of the recipe `english` and the table of general-mono (docs/experiments/english.md).

    RAYPIPE_DATA=FOLDER python tests/benchmarks/general/english.py OUT rule
    RAYPIPE_DATA=FOLDER python tests/benchmarks/general/english.py OUT kinds
    RAYPIPE_DATA=FOLDER python tests/benchmarks/general/english.py OUT choose

OUT has a folder for each collection with its stores, runs and scores; a second invocation reuses
them. `rule` applies the rule to the four dev sets, and `kinds` prints where general-mono helps.
`choose` prints the values by which the weights, k0 and the blends were chosen before; it needs an
OUT of its own.
"""

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from compare import Values, _first, _min_max, _on, _sum, values
from macro import Macro, macro
from outside import (
    DATA,
    OUTSIDE,
    RESOURCES,
    SEED,
    Outside,
    Run,
    lines_of,
    log_odds,
    read_run,
    recipe_of,
    write_queries,
)
from sources import medquad, write

import raypipe
from raypipe.evaluation.significance import difference

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


ALL = 10_000
"""More than any set's queries: all of them, in the order of the draw."""
RULE = {
    "nfcorpus": replace(OUTSIDE["nfcorpus"], qrels="nfcorpus/qrels/dev.tsv.gz", sample=ALL),
    "wikiqa": replace(
        OUTSIDE["wikiqa"],
        queries="wikiqa/queries.dev.tsv.gz",
        qrels="wikiqa/qrels.dev.txt.gz",
        measure="nDCG@10",
        lists=False,
        sample=ALL,
    ),
    "dl21": replace(OUTSIDE["dl21"], sample=ALL),
    "car": replace(OUTSIDE["car"], sample=ALL),
}
"""The four dev sets of the rule."""
RERANKED = {"nfcorpus": 40, "car": 60, "python-docs": 40}
"""The queries of a set whose candidates are reranked, where that is not all: the draw's first."""
SECOND = {"dl21": "RR(rel=2)@10"}
"""The measure that is printed beside nDCG@10, where it is not RR@10."""
SIMPLEST_FIRST = ("bm25", "dense", "sum-1-3")
CELLS = ((35, 0), (35, 1), (35, 2), (35, 6), (10, 1), (20, 1))
"""k0 and blend of each column of the table."""


def main(out: Path, mode: str) -> None:
    """Print what the rule gives, where general-mono helps, or the values of the first choice."""
    RESOURCES.update({"precision": "fp32"})
    if mode == "choose":
        _choose({name: _systems(name, out) for name in _dev(out)})
        return
    judged = {"format": "msmarco-v1", "input": str(_judged_passages(out / "judged.tsv"))}
    OUTSIDE.update(RULE | {"dl21": replace(RULE["dl21"], collection=judged)})
    if mode == "kinds":
        _kinds(out)
        return
    for name in RULE:
        write_queries(name, out / name)
    _rule(out)


def _rule(out: Path) -> None:
    near = {name: _near(name, out) for name in RULE}
    measured = {name: _measured(name, out, near[name], _queries(name, out)) for name in RULE}
    first = first_stage(measured)
    print(f"the first stage is {first}")
    for one, other in itertools.combinations(reversed(SIMPLEST_FIRST), 2):
        _compare(measured, one, other)
    for run in dict.fromkeys(("sum-1-3", first)):
        reranked = dict[str, Values]()
        for name in RULE:
            drawn = _queries(name, out)[: RERANKED.get(name)]
            orders = _orders(name, out, {run: _of(drawn, near[name][run])}, (35,), (1,))
            reranked[name] = _measured(name, out, orders, drawn)
        _compare(reranked, _name(run, 35, 1), run)


def first_stage(measured: dict[str, Values]) -> str:
    """The simplest first stage that is not significantly below the one with the best mean."""
    means = {
        run: np.mean([np.mean(list(each[run].values())) for each in measured.values()])
        for run in SIMPLEST_FIRST
    }
    best = max(means, key=lambda run: means[run])
    return next(
        run for run in SIMPLEST_FIRST if run == best or _compare(measured, run, best).high >= 0
    )


def _judged_passages(path: Path) -> Path:
    """The passages of TREC DL 2021 that have a judgement, as a collection."""
    qrels = DATA / "msmarco-v2-dl21/qrels.dl21.txt.gz"
    judged = {line.split()[2] for line in lines_of(qrels)}
    lines = lines_of(DATA / "msmarco-v2-dl21/collection.tsv.gz")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines if line.split("\t")[0] in judged))
    return path


def _near(name: str, out: Path) -> dict[str, Run]:
    """The first 35 of each first stage of the rule."""
    runs = _first_stages(name, out)
    return {run: _first(runs[run], 35) for run in SIMPLEST_FIRST}


def _queries(name: str, out: Path) -> list[str]:
    """The queries in the order of the draw."""
    return [line.split("\t")[0] for line in lines_of(out / name / "queries.tsv")]


def _of(queries: Sequence[str], run: Run) -> Run:
    """These queries of the run, as far as it has them."""
    return {query: run[query] for query in queries if query in run}


def _measured(name: str, out: Path, orders: dict[str, Run], queries: Sequence[str]) -> Values:
    """nDCG@10 of each order for these queries; prints the means, and those of RR@10."""
    own, found = OUTSIDE[name], dict[str, Values]()
    for measure in (own.measure, SECOND.get(name, "RR@10")):
        OUTSIDE[name] = replace(own, measure=measure)
        every = values(name, out, orders)
        found[measure] = {order: {q: each[q] for q in queries} for order, each in every.items()}
        base, *rest = orders
        for order in orders:
            mean = np.mean(list(found[measure][order].values()))
            print(f"{name}, {order}: {measure} {mean:.4f} (n={len(queries)})")
        for order in rest:
            less = _own(found[measure][order], found[measure][base])
            print(f"{name}, {order} less {base}: {measure} {less}")
    OUTSIDE[name] = own
    return found[own.measure]


def _compare(measured: dict[str, Values], order: str, other: str) -> Macro:
    """The mean over the sets of `order` less `other`; prints it with each set's own."""
    deltas = [
        np.array([each[order][q] - each[other][q] for q in sorted(each[other])])
        for each in measured.values()
    ]
    found = macro(deltas)
    own = ", ".join(f"{name} {_own(each[order], each[other])}" for name, each in measured.items())
    interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
    print(f"{order} less {other}: {found.mean:+.4f} {interval} ({own})")
    return found


def _own(mine: dict[str, float], base: dict[str, float]) -> str:
    """One set's mean difference and its interval."""
    found = difference(mine, base)
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _kinds(out: Path) -> None:
    """general-mono less the run that it reranks, as rows of a table."""
    OUTSIDE["python-docs"] = _python_docs(out, "test", ALL)
    depths, blends = (sorted(set(each)) for each in zip(*CELLS, strict=True))
    print("| text | run | nDCG@10 |", " | ".join(f"k0 {k0}, a {a}" for k0, a in CELLS), "|")
    for name in (*RULE, "python-docs"):
        write_queries(name, out / name)
        drawn = _queries(name, out)[: RERANKED.get(name)]
        near = {key: _of(drawn, run) for key, run in _near(name, out).items()}
        every = values(name, out, _orders(name, out, near, depths, blends))
        found = {order: {q: each[q] for q in drawn} for order, each in every.items()}
        for run in SIMPLEST_FIRST:
            row = [_own(found[_name(run, k0, a)], found[run]) for k0, a in CELLS]
            mean = np.mean(list(found[run].values()))
            print(f"| {name} (n={len(drawn)}) | {run} | {mean:.4f} |", " | ".join(row), "|")


def _choose(found: dict[str, Values]) -> None:
    means = {
        order: [float(np.mean(list(each[order].values()))) for each in found.values()]
        for order in next(iter(found.values()))
    }
    print("system", *found, "mean")
    for order in sorted(means, key=lambda order: -sum(means[order])):
        print(order, *(f"{mean:.4f}" for mean in means[order]), f"{np.mean(means[order]):.6f}")


def _systems(name: str, out: Path) -> Values:
    """The dev values of every system of the first choice."""
    runs = _first_stages(name, out)
    near = {key: _first(runs[key], MOST) for key in FIRST}
    return values(name, out, _orders(name, out, near, K0, BLENDS))


def _orders(
    name: str, out: Path, near: dict[str, Run], depths: Sequence[int], blends: Sequence[float]
) -> dict[str, Run]:
    """These runs, and general-mono over the first candidates of each."""
    queries = sorted({query for run in near.values() for query in run})
    every = {q: {p: 0.0 for run in near.values() for p in run.get(q, {})} for q in queries}
    f = log_odds(name, out, MODEL, every)
    orders = dict[str, Run](near)
    for (key, run), k0 in itertools.product(near.items(), depths):
        cut = _first(run, k0)
        z, own = _min_max(cut), _on(f, cut, None)
        for a in blends:
            weighted = {q: {p: a * v for p, v in each.items()} for q, each in z.items()}
            orders[_name(key, k0, a)] = _sum(weighted, own)
    return orders


def _name(run: str, k0: int, blend: float) -> str:
    return f"{run}/{MODEL}/k0={k0}/blend={blend:g}"


def _first_stages(name: str, out: Path) -> dict[str, Run]:
    fuse = {"do": "fuse", "runs": ["bm25", "dense"], "depth": DEPTH}
    recipe = recipe_of(name, out) | {
        "models": {"minilm": {"path": "minilm"}},
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
    """The dev sets of the first choice; writes their queries."""
    source = out / "source-medquad"
    write(source, medquad(DATA / "medquad-liveqa", Random(SEED)))
    passages = {"format": "msmarco-v1", "input": str(DATA / "medquad-liveqa/collection.tsv.gz")}
    files = str(source / "queries.dev.tsv"), str(source / "qrels.dev.txt")
    sets = {
        "python-docs": _python_docs(out, "dev", DEV["python-docs"]),
        "medquad": Outside(passages, *files, candidates=MOST, sample=DEV["medquad"]),
    }
    for name, each in sets.items():
        OUTSIDE[name] = each
        write_queries(name, out / name)
    return list(sets)


def _python_docs(out: Path, split: str, sample: int) -> Outside:
    """Python's documentation, with a draw of a split's queries."""
    recipe = {"format": 1, "name": "docs", "collection": {"format": "python-docs"}}
    recipe |= {"queries": {split: {"builtin": split}}, "stages": {"lucene": {"do": "index"}}}
    raypipe.run(recipe, out / "docs")
    files = [
        str(out / f"docs/python-docs/{name}")
        for name in (f"queries.{split}.tsv", f"qrels.{split}.txt")
    ]
    return Outside({"format": "python-docs"}, *files, candidates=MOST, sample=sample)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2])
