"""The three comparisons of general_rerankers.md.

    RAYPIPE_DATA=FOLDER python tests/benchmarks/general/compare.py OUT MODEL [COLLECTION ...]

OUT has a folder for each collection with its stores, runs and scores; a second invocation reuses
them.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from macro import Macro, macro
from outside import OUTSIDE, Run, first_stages, lines_of, log_odds, write_queries

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.significance import difference, holm

BLEND = 6.0
MARGIN = -0.01
Values = dict[str, dict[str, float]]
"""Order -> query -> value of the measure."""


def orders(name: str, out: Path, model: str) -> dict[str, Run]:
    """Every order of the candidates, as scores."""
    runs = first_stages(name, out)
    bm25, dense = runs["bm25-deep"], runs["dense-deep"]
    if OUTSIDE[name].lists:
        listed = _listed(out / name / "qrels.txt")
        near = {"fused": _reciprocal(_on(bm25, listed, 0.0), _on(dense, listed, None))}
    else:
        most = OUTSIDE[name].candidates
        near = {stage: _first(runs[stage], most) for stage in ("bm25", "fused")}
    every = {
        q: dict.fromkeys(p for run in near.values() for p in run.get(q, {})) for q in near["fused"]
    }
    f = log_odds(name, out, model, {q: dict.fromkeys(found, 0.0) for q, found in every.items()})
    found = {"listed": listed} if OUTSIDE[name].lists else {}
    for stage, run in near.items():
        here, there = _on(bm25, run, 0.0), _on(dense, run, None)
        z = _min_max(run)
        found |= {
            stage: run,
            f"MiniLM over {stage}": there,
            f"min-max over {stage}": _sum(_min_max(here), _min_max(there)),
            f"f over {stage}": _on(f, run, None),
            f"s over {stage}": _sum(
                {q: {p: BLEND * v for p, v in e.items()} for q, e in z.items()}, _on(f, run, None)
            ),
        }
    return found


def values(name: str, out: Path, found: dict[str, Run]) -> Values:
    """Each order's value for each query."""
    qrels, measure = read_qrels(out / name / "qrels.txt"), OUTSIDE[name].measure
    return {
        order: dict(evaluate(_table(run), qrels, [measure], names=(order, name)).per_query[measure])
        for order, run in found.items()
    }


def compared(measured: dict[str, Values]) -> dict[str, Macro]:
    """The macro mean of (a), (b) and (c); prints each collection's own difference."""
    without_lists = [name for name in measured if not OUTSIDE[name].lists]
    wanted = {
        "a": (without_lists, "f over bm25", "bm25", 0.0),
        "b": (without_lists, "s over fused", "fused", MARGIN),
        "c": (list(measured), "s over fused", "min-max over fused", 0.0),
    }
    found = {}
    for letter, (names, order, other, threshold) in wanted.items():
        deltas = []
        for name in names:
            mine, base = measured[name][order], measured[name][other]
            own = difference(mine, base)
            print(f"({letter}) {name}: {own.mean:+.4f} [{own.low:+.4f}, {own.high:+.4f}]")
            deltas.append(np.array([mine[query] - base[query] for query in sorted(base)]))
        found[letter] = macro(deltas, threshold=threshold)
    return found


def main(out: Path, model: str, names: list[str]) -> None:
    measured = dict[str, Values]()
    for name in names:
        write_queries(name, out / name)
        measured[name] = values(name, out, orders(name, out, model))
        for order, each in measured[name].items():
            mean = np.mean(list(each.values()))
            print(f"{name}, {order}: {OUTSIDE[name].measure} {mean:.4f} (n={len(each)})")
    found = compared(measured)
    corrected = holm([each.p for each in found.values()])
    for (letter, each), p in zip(found.items(), corrected, strict=True):
        interval = f"[{each.low:+.4f}, {each.high:+.4f}]"
        print(f"({letter}) macro: {each.mean:+.4f} {interval}, p {each.p:.4f}, Holm {p:.4f}")


def _first(run: Run, most: int) -> Run:
    return {query: dict(list(found.items())[:most]) for query, found in run.items()}


def _listed(qrels: Path) -> Run:
    found: Run = {}
    for line in lines_of(qrels):
        query, _, passage, _ = line.split()
        own = found.setdefault(query, {})
        own[passage] = 1 / (len(own) + 1)
    return found


def _on(run: Run, candidates: Run, missing: float | None) -> Run:
    """The run's scores of the candidates; without `missing`, one not there has the lowest."""
    found: Run = {}
    for query, passages in candidates.items():
        scores = run.get(query, {})
        low = min(scores.values(), default=0.0) if missing is None else missing
        found[query] = {passage: scores.get(passage, low) for passage in passages}
    return found


def _min_max(run: Run) -> Run:
    found: Run = {}
    for query, scores in run.items():
        low, high = min(scores.values()), max(scores.values())
        span = high - low
        found[query] = {p: (s - low) / span if span else 1.0 for p, s in scores.items()}
    return found


def _sum(one: Run, other: Run) -> Run:
    return {q: {p: score + other[q][p] for p, score in found.items()} for q, found in one.items()}


def _reciprocal(*runs: Run) -> Run:
    found: Run = {query: dict.fromkeys(passages, 0.0) for query, passages in runs[0].items()}
    for run in runs:
        for query, scores in run.items():
            best = sorted(scores, key=lambda passage: -scores[passage])
            for rank, passage in enumerate(best, start=1):
                found[query][passage] += 1 / (60 + rank)
    return found


def _table(run: Run) -> pa.Table:
    rows = [
        (query, passage, rank, score)
        for query, scores in run.items()
        for rank, (passage, score) in enumerate(
            sorted(scores.items(), key=lambda e: -e[1]), start=1
        )
    ]
    return pa.table(
        dict(zip(schema.RUN_FILE.names, zip(*rows, strict=True), strict=True)),
        schema=schema.RUN_FILE,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:] or list(OUTSIDE))
