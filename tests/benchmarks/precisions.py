"""What reduced precision changes: measures, scores and orders, on whole query sets, on a CPU.

    RAYPIPE_DATA=FOLDER python tests/benchmarks/precisions.py OUT

MiniLM's dense search and the packaged monoBERT adapter over BM25's first 20, on NFCorpus (323 test
queries) and TREC DL 2021 (53 topics, on a subset), in every precision in which this CPU multiplies.
Each precision has a workspace in OUT; a second invocation reuses what the first one stored.
"""

import os
import sys
from pathlib import Path

from agreement import FIRST, agreement

import raypipe
from raypipe.evaluation.significance import difference
from raypipe.models.machine.device import numerics_class
from raypipe.models.machine.precision import able
from raypipe.report.finished import Finished, measured, open_finished

DATA = os.environ["RAYPIPE_DATA"]
SETS = {
    "nfcorpus": (
        {"format": "beir", "input": f"{DATA}/nfcorpus"},
        {
            "file": f"{DATA}/nfcorpus/queries.jsonl.gz",
            "qrels": f"{DATA}/nfcorpus/qrels/test.tsv.gz",
            "only_judged": True,
        },
    ),
    "dl21": (
        {"format": "msmarco-v1", "input": f"{DATA}/msmarco-v2-dl21/collection.tsv.gz"},
        {
            "file": f"{DATA}/msmarco-v2-dl21/queries.dl21.tsv",
            "qrels": f"{DATA}/msmarco-v2-dl21/qrels.dl21.txt.gz",
            "only_judged": True,
        },
    ),
}
MEASURE, SYSTEMS = "nDCG@10", ("dense", "mono")


def finished(out: Path, name: str, precision: str) -> Finished:
    """The workspace of one set in one precision."""
    collection, queries = SETS[name]
    recipe = {
        "format": 1,
        "name": f"{name}-{precision}",
        "collection": collection,
        "queries": {"test": queries},
        "models": {"minilm": {"path": "minilm"}, "mono": {"path": "minilm-mono"}},
        "stages": {
            "lucene": {"do": "index"},
            "bm25": {"do": "search", "index": "lucene", "depth": 100},
            "vectors": {"do": "encode", "model": "minilm"},
            "dense": {"do": "search", "index": "vectors", "depth": 100},
            "mono": {"do": "score", "run": "bm25", "model": "mono", "k0": 20},
        },
        "evaluate": {"measures": [MEASURE], "baseline": "bm25"},
        "resources": {
            "backend": "inline",
            "precision": precision,
            "device": "cpu",
            "threads": 1,
        },
        "stores": str(out / "stores"),
    }
    raypipe.run(recipe, out / f"{name}-{precision}")
    return open_finished(out / f"{name}-{precision}")


def lists_of(opened: Finished, system: str) -> dict[int, dict[int, float]]:
    """Query row -> passage row -> score, of what the model scored, best first."""
    found: dict[int, dict[int, float]] = {}
    for line in opened.run(system, "test").to_pylist():
        if line["scored_by"] == system:
            found.setdefault(line["query_row"], {})[line["passage_row"]] = line["score"]
    return found


def main() -> None:
    out = Path(sys.argv[1])
    print(numerics_class("cpu"))
    for name in SETS:
        runs = {precision: finished(out, name, precision) for precision in able("cpu")}
        for system in SYSTEMS:
            told = {
                p: measured(r, "test", r.run(system, "test"), [MEASURE]) for p, r in runs.items()
            }
            base, lists = told["fp32"].per_query[MEASURE], lists_of(runs["fp32"], system)
            for precision, run in runs.items():
                delta = difference(told[precision].per_query[MEASURE], base)
                found = agreement(lists_of(run, system), lists)
                print(
                    f"{name} {system} {precision}: {MEASURE} {told[precision].mean[MEASURE]:.4f}, "
                    f"{delta.mean:+.4f} [{delta.low:+.4f}, {delta.high:+.4f}]; largest difference "
                    f"of a score {found.largest:.1e}; Kendall tau {found.tau:.4f}; another top "
                    f"{FIRST} in {found.changed} of {found.queries} queries"
                )


if __name__ == "__main__":
    main()
