"""A finished pipeline of given runs, of passages and documents, with all that can be odd."""

import pytest
import yaml
from small_documents import write_inputs
from watchers import Silent

from raypipe.config import load_recipe
from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.pipeline import Options, run_pipeline

PASSAGES = {
    "p1": "the <b>zebra</b> & \x1b[31mred\x07 \u202eevil",
    "p2": f"a lease {'x' * 300}",
    "p3": "of shards",
    "p4": "nothing",
}
QUERIES = {"q1": "a lease <i>\x1b[2J", "q2": "zebra", "q/3": "unjudged one", "q4": "nothing"}
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
    (folder / "queries.tsv").write_text("".join(f"{q}\t{t}\n" for q, t in QUERIES.items()))
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
    run_pipeline(loaded, folder, Options(), watcher=Silent())
    return open_finished(folder)
