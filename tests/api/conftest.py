"""A small collection with repeated texts, and what a pipeline makes of it: the API's oracle."""

import json
import random

import pytest
from quick_java import quick_java  # noqa: F401  (for each test here)

import raypipe

PASSAGES = 36
WORDS = "the a of lease shard rank query passage zebra run runs wax quick fox jumps over".split()
RECIPE = {
    "format": 1,
    "name": "small",
    "models": {"tiny": {}, "mono": {}, "duo": {}},
    "stages": {
        "embeddings": {"do": "encode", "model": "tiny"},
        "dense": {"do": "search", "index": "embeddings", "depth": 20},
        "mono": {"do": "score", "run": "dense", "model": "mono", "k0": 12},
        "duo": {"do": "score", "run": "mono", "model": "duo", "k1": 5},
        "duo-sum": {"do": "aggregate", "pairs": "duo", "method": "sum"},
        "duo-min": {"do": "aggregate", "pairs": "duo", "method": "min", "tail": "drop"},
        "fused": {"do": "fuse", "runs": ["dense", "mono"], "method": "alternate", "depth": 15},
        "rrf": {"do": "fuse", "runs": ["dense", "mono"], "method": "rrf", "depth": 15},
    },
    "evaluate": {"measures": ["nDCG@10", "RR@10"], "baseline": "dense"},
    "runs": {"tsv": True},
}


@pytest.fixture(scope="session")
def passages():
    """id -> text; every third text twice, so that scores tie, and ids against their places."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=1 + place % 11)) for place in range(PASSAGES)]
    texts = [texts[place - place % 3 if place % 3 == 1 else place] for place in range(PASSAGES)]
    return {f"p{100 - place}": text for place, text in enumerate(texts)}


@pytest.fixture(scope="session")
def queries():
    return {"q2": "rank of the lease", "q1": "a zebra run", "q9": "what is a shard of the query"}


@pytest.fixture(scope="session")
def qrels(passages):
    ids = list(passages)
    return {
        "q2": {ids[0]: 1, ids[4]: 2},
        "q1": {ids[9]: 1, ids[10]: 0},
        "q9": {ids[30]: 3, ids[2]: 1},
    }


@pytest.fixture(scope="session")
def recipe(passages, queries, qrels, tiny_model, tiny_mono, tiny_duo, tmp_path_factory):
    """The keys of a recipe over files of these."""
    folder = tmp_path_factory.mktemp("api")
    for name, texts in (("passages", passages), ("queries", queries)):
        lines = [f"{key}\t{text}\n" for key, text in texts.items()]
        (folder / f"{name}.tsv").write_text("".join(lines))
    lines = [f"{q} 0 {p} {g}\n" for q, grades in qrels.items() for p, g in grades.items()]
    (folder / "qrels.txt").write_text("".join(lines))
    keys = json.loads(json.dumps(RECIPE))
    keys["collection"] = {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"}
    keys["queries"] = {"test": {"file": f"{folder}/queries.tsv", "qrels": f"{folder}/qrels.txt"}}
    for name, path in (("tiny", tiny_model), ("mono", tiny_mono), ("duo", tiny_duo)):
        keys["models"][name]["path"] = str(path)
    keys["resources"] = {"device": "cpu", "shard_tokens": 150}
    return keys


@pytest.fixture(scope="session")
def made(recipe, tmp_path_factory):
    """The pipeline's invocation, without Ray."""
    return raypipe.run(recipe, tmp_path_factory.mktemp("made") / "work")


@pytest.fixture(scope="session")
def stored(made):
    """The finished store of a name, as the pipeline left it."""
    from raypipe.storage.ledger import read_manifest
    from raypipe.storage.root import open_storage
    from raypipe.storage.store import Stored

    storage = open_storage(str(made.folder / "stores"))

    def found(name):
        fingerprint = made.summary["stages"][name]["fingerprint"]
        return Stored(storage, read_manifest(storage, name, fingerprint))

    return found
