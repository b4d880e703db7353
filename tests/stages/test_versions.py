"""The version of every stage's output: one that rises is a decision, and computes stores anew."""

import ast
from pathlib import Path

import raypipe
from raypipe.training import examples_stage, job

VERSIONS = {
    "aggregate": 1,
    "bm25": 1,
    "candidates": 1,
    "count": 2,
    "encode": 2,
    "fuse": 1,
    "ids": 1,
    "index": 2,
    "pairs": 1,
    "prepare": 1,
    "queries": 1,
    "read": 1,
    "rerank": 1,
    "score": 1,
    "scores": 2,
    "search": 1,
    "search-parts": 1,
    "tokenize": 2,
    "tokenize-passages": 2,
    "tune": 1,
}


def test_every_stage_has_the_version_that_its_stores_were_made_with():
    found = {}
    for path in (Path(raypipe.__file__).parent / "stages").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StageSpec":
                name, version = (argument.value for argument in node.args[:2])
                assert found.setdefault(name, version) == version, name
    assert found == VERSIONS


def test_a_training_and_its_examples_have_theirs():
    assert (job.SEMANTICS, examples_stage.SEMANTICS) == (3, 3)
