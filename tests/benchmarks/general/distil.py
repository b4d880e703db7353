"""The queries, the first run and the report of docs/experiments/distilled.md.

    python tests/benchmarks/general/distil.py GENERAL queries
    RAYPIPE_DATA=FOLDER python tests/benchmarks/general/distil.py OUT report DENSE [SPARSE]

GENERAL is a folder in which sources.py wrote medquad and manuals; each of them then has
passages.distil.tsv, queries.distil.tsv and bm25.distil.trec. OUT has a folder for each collection
with its stores and runs; a second invocation reuses them. DENSE and SPARSE are the folders of the
two models.
"""

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from compare import values
from macro import macro
from outside import OUTSIDE, Run, read_run, recipe_of, write_queries
from sources import SEED

import raypipe

QUERIES = 1000
"""Of each source."""
DEPTH = 20
LONGEST = 120
"""Words of a passage."""
RESOURCES = {"backend": "inline", "precision": "bf16"}


def write_inputs(general: Path) -> None:
    """The short passages and the drawn queries of each source, and BM25's run over them."""
    for source, kinds in {"medquad": ("train", "unlabelled"), "manuals": ("unlabelled",)}.items():
        every = (general / source / "collection.tsv").read_text().splitlines()
        short = [line for line in every if len(line.split()) <= LONGEST]
        passages = general / source / "passages.distil.tsv"
        passages.write_text("".join(f"{line}\n" for line in short))
        files = [general / source / f"queries.{kind}.tsv" for kind in kinds]
        lines = [line for file in files for line in file.read_text().splitlines()]
        lines = [line for line in lines if not line.startswith("fs-")]  # each finds its passage
        Random(SEED).shuffle(lines)
        drawn = general / source / "queries.distil.tsv"
        drawn.write_text("".join(f"{line}\n" for line in lines[:QUERIES]))
        print(f"{source}: {len(short)} passages")
        recipe = {
            "format": 1,
            "name": source,
            "collection": {"format": "msmarco-v1", "input": str(passages)},
            "queries": {"all": {"file": str(drawn)}},
            "resources": RESOURCES,
            "stages": {
                "lucene": {"do": "index"},
                "bm25": {"do": "search", "index": "lucene", "depth": DEPTH},
            },
        }
        out = general / source / "first"
        raypipe.run(recipe, out)
        found = (out / "runs/all/bm25.trec").read_bytes()
        (general / source / "bm25.distil.trec").write_bytes(found)


def searches(name: str, out: Path, models: dict[str, str]) -> dict[str, Run]:
    """The runs of BM25, MiniLM and both models."""
    stages = {"lucene": {"do": "index"}, "bm25": {"do": "search", "index": "lucene", "depth": 100}}
    for model in models:
        stages[f"of-{model}"] = {"do": "encode", "model": model}
        stages[model] = {"do": "search", "index": f"of-{model}", "depth": 100}
    recipe = recipe_of(name, out) | {
        "models": {model: {"path": path} for model, path in models.items()},
        "resources": RESOURCES,
        "stages": stages,
    }
    raypipe.run(recipe, out / name / "found")
    runs = out / name / "found/runs/test"
    return {system: read_run(runs / f"{system}.trec") for system in ("bm25", *models)}


def report(out: Path, dense: str, sparse: str | None = None) -> None:
    """Print each value, and the comparisons."""
    models = {"minilm": "minilm", "dense": dense}
    wanted = [("dense", "minilm")]
    if sparse is not None:
        models["sparse"] = sparse
        wanted += [("sparse", "bm25"), ("sparse", "minilm")]
    found = {}
    for name, outside in OUTSIDE.items():
        OUTSIDE[name] = replace(outside, measure="nDCG@10", lists=False)
        write_queries(name, out / name)
        found[name] = values(name, out, searches(name, out, models))
        for system, each in found[name].items():
            print(f"{name}, {system}: {np.mean(list(each.values())):.4f} (n={len(each)})")
    for mine, other in wanted:
        deltas = [
            np.array([m[mine][q] - m[other][q] for q in sorted(m[other])]) for m in found.values()
        ]
        each = macro(deltas)
        own = ", ".join(f"{n} {d.mean():+.4f}" for n, d in zip(found, deltas, strict=True))
        print(f"{mine} less {other}: {each.mean:+.4f} [{each.low:+.4f}, {each.high:+.4f}] ({own})")


if __name__ == "__main__":
    if sys.argv[2] == "queries":
        write_inputs(Path(sys.argv[1]))
    else:
        report(Path(sys.argv[1]), *sys.argv[3:])
