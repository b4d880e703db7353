"""Finished pipelines: of small models, of given runs with all that can be odd, of documents."""

from types import MappingProxyType

import pytest
import yaml
from small_documents import write_inputs
from small_workspace import run_small

from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.report.finished import open_finished

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
        chosen=MappingProxyType({}),
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
            },
            "resources": {"backend": "inline", "device": "cpu"},
            "stores": str(folder / "stores"),
        }
        recipe.pop(without, None)
        loaded = load_recipe(yaml.safe_dump(recipe, sort_keys=False), source="analysed")
        run_pipeline(loaded, folder / name, Options(**chosen), watcher=Watcher())
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
    run_pipeline(loaded, folder / "work", Options(), watcher=Watcher())
    return open_finished(folder / "work"), folder


PASSAGES = {
    "p1": "the <b>zebra</b> & \x1b[31mred\x07 \u202eevil",
    "p2": f"a lease {'x' * 300}",
    "p3": "of shards",
    "p4": "nothing",
}
GIVEN_QUERIES = {"q1": "a lease <i>\x1b[2J", "q2": "zebra", "q/3": "unjudged one", "q4": "nothing"}
QRELS = """q1 0 p2 1
q1 0 p1 0
q1 0 p4 2
q1 0 gone 1
q2 0 p1 1
q4 0 p4 1
q9 0 p1 1
"""
RUNS = {
    "one": "q1 Q0 p1 1 9.5 x\nq1 Q0 p2 2 9.5 x\nq2 Q0 p3 1 1 x\nq/3 Q0 p1 1 3 x\n",
    "two": "q1 Q0 p2 1 9 x\nq1 Q0 p3 2 8 x\n",
}


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """Two runs of passages: four queries, one of them not judged, a set of one, one unjudged."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "passages.tsv").write_text("".join(f"{p}\t{t}\n" for p, t in PASSAGES.items()))
    (folder / "queries.tsv").write_text("".join(f"{q}\t{t}\n" for q, t in GIVEN_QUERIES.items()))
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "lone.tsv").write_text("q1\tlone\n")
    (folder / "lone.txt").write_text("q1 0 p2 1\n")
    for name, lines in RUNS.items():
        (folder / f"{name}.trec").write_text(lines)
        first = "p1" if name == "one" else "p2"
        (folder / f"{name}.lone.trec").write_text(f"q1 Q0 {first} 1 9 x\n")
    recipe = {
        "format": 1,
        "name": "given",
        "collection": {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"},
        "queries": {
            "test": {"file": f"{folder}/queries.tsv", "qrels": f"{folder}/qrels.txt"},
            "lone": {"file": f"{folder}/lone.tsv", "qrels": f"{folder}/lone.txt"},
            "free": {"file": f"{folder}/lone.tsv"},
        },
        "stages": {
            name: {
                "do": "read",
                "runs": {
                    "test": f"{folder}/{name}.trec",
                    "lone": f"{folder}/{name}.lone.trec",
                    "free": f"{folder}/{name}.lone.trec",
                },
            }
            for name in RUNS
        },
        "evaluate": {"measures": ["RR@10", "AP", "nDCG@3"], "baseline": "one"},
        "resources": {"backend": "inline", "device": "cpu"},
    }
    return finish(recipe, folder / "work")


@pytest.fixture(scope="session")
def given_documents(tmp_path_factory):
    """A run of documents, their passages, and the documents of these."""
    folder = tmp_path_factory.mktemp("given-documents")
    write_inputs(folder)
    (folder / "documents.trec").write_text(
        "q1 Q0 D4 1 9 x\nq1 Q0 D0 2 8 x\nq2 Q0 D5 1 9 x\nq2 Q0 D7 2 9 x\n"
    )
    runs = {"test": f"{folder}/documents.trec"}
    recipe = {
        "format": 1,
        "name": "given-documents",
        "collection": {
            "format": "msmarco-doc-v2",
            "input": f"{folder}/docs.jsonl",
            "split": {"length": 3, "stride": 2, "title_words": 1, "headings_words": 0},
        },
        "queries": {
            "test": {"file": f"{folder}/queries.tsv", "document_qrels": f"{folder}/qrels.txt"}
        },
        "stages": {
            "given": {"do": "read", "of": "documents", "runs": runs},
            "windows": {"do": "passages", "run": "given", "documents": 3, "at_most": 2},
            "again": {"do": "documents", "run": "windows", "method": "firstp"},
        },
        "evaluate": {"measures": ["RR@10", "nDCG@10"], "baseline": "given"},
        "resources": {"backend": "inline", "device": "cpu"},
    }
    return finish(recipe, folder / "work")


def finish(recipe, folder):
    loaded = load_recipe(yaml.safe_dump(recipe, sort_keys=False), source="given")
    run_pipeline(loaded, folder, Options(), watcher=Watcher())
    return open_finished(folder)


@pytest.fixture(scope="session")
def small_workspace(tiny_model, tmp_path_factory):
    """The workspace, and what its invocation returned and said."""
    return run_small(tmp_path_factory.mktemp("small"), tiny_model)
