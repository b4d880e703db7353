"""duoBERT over the first candidates of s, of general_rerankers.md.

    python tests/benchmarks/general/pairs.py OUT MONO DUO outside [COLLECTION ...]
    python tests/benchmarks/general/pairs.py OUT MONO DUO dev GENERAL
    python tests/benchmarks/general/pairs.py OUT MONO DUO test GENERAL QUICKSTART

RAYPIPE_DATA is set. OUT is that of compare.py or inside.py. MONO's s ranks the fused run's
candidates; DUO compares the first 10 by every ordered pair, and they are ranked by SUM, before the
others.
"""

import sys
from pathlib import Path

import numpy as np
from compare import Values, orders, values
from inside import files
from inside import orders as inside_orders
from macro import macro
from outside import OUTSIDE, Outside, Run, read_run, recipe_of, write_queries

import raypipe
from raypipe.evaluation.significance import difference

FIRST = 10


def reordered(name: str, out: Path, model: str, s: Run) -> Run:
    """The order of s with its first 10 by SUM."""
    best = {q: sorted(found, key=lambda p: (-found[p], p)) for q, found in s.items()}
    run = out / name / "first-10.trec"
    lines = [
        f"{query} Q0 {passage} {rank} {1 / rank} s\n"
        for query, passages in best.items()
        for rank, passage in enumerate(passages[:FIRST], start=1)
    ]
    run.write_text("".join(lines))
    recipe = recipe_of(name, out) | {
        "models": {"duo": {"path": model}},
        "stages": {
            "read": {"do": "read", "runs": {"test": str(run)}},
            "pairs": {"do": "score", "run": "read", "model": "duo", "k1": FIRST},
            "sum": {"do": "aggregate", "pairs": "pairs", "method": "sum"},
        },
    }
    raypipe.run(recipe, out / name / f"pairs-{Path(model).name}")
    found = read_run(out / name / f"pairs-{Path(model).name}" / "runs/test/sum.trec")
    for query, passages in best.items():
        low = min(found.setdefault(query, {}).values(), default=0.0)
        rest = [p for p in passages if p not in found[query]]
        found[query] |= {p: low - rank for rank, p in enumerate(rest, start=1)}
    return found


def tell(name: str, measured: Values) -> np.ndarray:
    """Print s, duoBERT and their difference; returns that of each query."""
    for order, each in measured.items():
        mean = np.mean(list(each.values()))
        print(f"{name}, {order}: {OUTSIDE[name].measure} {mean:.4f} (n={len(each)})")
    mine, base = measured["duo"], measured["s"]
    own = difference(mine, base)
    print(f"{name}, duo - s: {own.mean:+.4f} [{own.low:+.4f}, {own.high:+.4f}]", flush=True)
    return np.array([mine[query] - base[query] for query in sorted(base)])


def outside(out: Path, mono: str, duo: str, names: list[str]) -> None:
    deltas = []
    for name in names:
        write_queries(name, out / name)
        s = orders(name, out, mono)["s over fused"]
        found = {"s": s, "duo": reordered(name, out, duo, s)}
        deltas.append(tell(name, values(name, out, found)))
    each = macro(deltas, threshold=0.0)
    print(f"macro: {each.mean:+.4f} [{each.low:+.4f}, {each.high:+.4f}], p {each.p:.4f}")


def inside(out: Path, mono: str, duo: str, split: str, general: Path, own: Path | None) -> None:
    means = []
    for name, (collection, folder, runs) in files(split, general, own).items():
        queries = {"queries": "", "qrels": "", "candidates": FIRST}
        OUTSIDE[name] = Outside({"format": "msmarco-v1", "input": str(collection)}, **queries)
        s = inside_orders(name, out, mono, split, folder, runs)["s"]
        measured = values(name, out, {"s": s, "duo": reordered(name, out, duo, s)})
        tell(name, measured)
        means.append(np.mean(list(measured["duo"].values())))
    print(f"{split}: mean of duo over the sources {np.mean(means):.4f}")


if __name__ == "__main__":
    where, mono, duo, split, *rest = sys.argv[1:]
    if split == "outside":
        outside(Path(where), mono, duo, rest or list(OUTSIDE))
    else:
        inside(Path(where), mono, duo, split, Path(rest[0]), Path(rest[1]) if rest[1:] else None)
