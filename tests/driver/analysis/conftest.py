"""A finished pipeline with two first stages, a monoBERT and a duoBERT model."""

from types import MappingProxyType

import pytest
import yaml
from watchers import Silent

from raypipe.config import load_recipe
from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.pipeline import Options, run_pipeline

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
QUERIES = {"q1": "beta gamma", "q2": "theta", "q3": "zeta eta theta iota"}
FEWER = ("q1", "q3")
RELEVANT = {"q1": ["p1", "p9"], "q2": ["p7"], "q3": ["p3"]}


@pytest.fixture(scope="session")
def analysed(tiny_model, tiny_mono, tiny_duo, tmp_path_factory):
    """Runs a recipe over its files, whose lists of `given` may be shorter."""
    folder = tmp_path_factory.mktemp("analysed")
    texts = [" ".join(WORDS[(i * 3 + j) % 10] for j in range(2 + i % 5)) for i in range(30)]
    (folder / "passages.tsv").write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(texts)))
    (folder / "queries.tsv").write_text("".join(f"{q}\t{t}\n" for q, t in QUERIES.items()))
    (folder / "fewer.tsv").write_text("".join(f"{q}\t{QUERIES[q]}\n" for q in FEWER))
    qrels = [f"{q} 0 {p} 1\n" for q, passages in RELEVANT.items() for p in passages]
    (folder / "qrels.txt").write_text("".join([*qrels, "q1 0 p2 0\n"]))

    def given(lengths, queries):
        told = [(q, n) for q in queries for n in range(1, lengths.get(q, 10) + 1)]
        return "".join(f"{q} Q0 p{(3 * n + 1) % 30} {n} {40 - n} x\n" for q, n in told)

    def run(
        k0=8, k1=5, name="work", tail="keep", measures=("RR@10", "R@5"), without=None,
        first="dense", lengths=MappingProxyType({}), other=MappingProxyType({}),
        stages=MappingProxyType({}), more_models=MappingProxyType({}),
        evaluate=MappingProxyType({}), chosen=MappingProxyType({}),
    ):  # fmt: skip
        for query_set, queries in (("test", QUERIES), ("other", FEWER)):
            (folder / f"{name}.{query_set}.trec").write_text(given(lengths, queries))
        models = {"tiny": tiny_model, "mono": tiny_mono, "duo": tiny_duo, **more_models}
        query_set = {"file": f"{folder}/queries.tsv", "qrels": f"{folder}/qrels.txt"}
        recipe = {
            "format": 1,
            "name": "analysed",
            "collection": {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"},
            "queries": {"test": query_set, "other": {"file": f"{folder}/fewer.tsv", **other}},
            "models": {model: {"path": str(path)} for model, path in models.items()},
            "stages": {
                "vectors": {"do": "encode", "model": "tiny"},
                "dense": {"do": "search", "index": "vectors", "depth": 20},
                "given": {
                    "do": "read",
                    "runs": {n: f"{folder}/{name}.{n}.trec" for n in ("test", "other")},
                },
                "first": {"do": "score", "run": first, "model": "mono", "k0": k0},
                "pairs": {"do": "score", "run": "first", "model": "duo", "k1": k1},
                "second": {"do": "aggregate", "pairs": "pairs", "method": "sum", "tail": tail},
                "least": {"do": "aggregate", "pairs": "pairs", "method": "min", "tail": tail},
                **stages,
            },
            "evaluate": {
                "measures": [*measures],
                "baseline": "dense",
                "topics": "three",
                **evaluate,
            },
            "resources": {"backend": "inline", "device": "cpu"},
            "stores": str(folder / "stores"),
        }
        recipe.pop(without, None)
        loaded = load_recipe(yaml.safe_dump(recipe, sort_keys=False), source="analysed")
        run_pipeline(loaded, folder / name, Options(**chosen), watcher=Silent())
        return open_finished(folder / name)

    return run


@pytest.fixture(scope="session")
def finished(analysed):
    """With k0 8 and k1 5."""
    return analysed()


OUTSIDE = {
    "own": "q1 p1 p2 p3 p4 p5 p0\nq2 p1 p2 p3",
    "second": "q1 p0 p1 p9\nq2 p1",
    "given": "q1 z0 p1 p3 p5 p9 z2\nq2 p1 z1",
    "other": "q1 p1 z1 p2 p3 p5\nq2 p0 p1\nq3 p9",
}
"""Runs, best first; passages with z are not in the collection."""


@pytest.fixture(scope="session")
def outside(tmp_path_factory):
    """A finished pipeline that reads two runs over its collection and two over a larger one."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "passages.tsv").write_text("".join(f"p{i}\tpassage {i}\n" for i in range(10)))
    (folder / "queries.tsv").write_text("q1\tone\nq2\ttwo\nq3\tthree\n")
    (folder / "qrels.txt").write_text("q1 0 p1 1\nq1 0 p9 1\nq2 0 p1 1\nq2 0 z1 1\n")
    stages = {}
    for name, text in OUTSIDE.items():
        lists = (line.split() for line in text.splitlines())
        lines = [f"{q} Q0 {p} {n} {-n} x\n" for q, *ps in lists for n, p in enumerate(ps, 1)]
        (folder / f"{name}.trec").write_text("".join(lines))
        stages[name] = {"do": "read", "runs": {"test": f"{folder}/{name}.trec"}}
        if "z" in text:
            stages[name]["larger_collection"] = "all of it"
    recipe = {
        "format": 1,
        "name": "outside",
        "collection": {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"},
        "queries": {"test": {"file": f"{folder}/queries.tsv", "qrels": f"{folder}/qrels.txt"}},
        "stages": stages,
        "evaluate": {"measures": ["RR@10", "R@5", "Judged@10"], "baseline": "own"},
        "resources": {"backend": "inline", "device": "cpu"},
    }
    loaded = load_recipe(yaml.safe_dump(recipe, sort_keys=False), source="outside")
    run_pipeline(loaded, folder / "work", Options(), watcher=Silent())
    return open_finished(folder / "work"), folder
