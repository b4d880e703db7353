"""A training's recipe with two collections."""

import json

from raypipe.config.load import load_training

BODY = {
    "format": 1, "name": "mine",
    "model": {"start": "/m/start", "preset": "monobert", "query_limit": 12, "total_limit": 64},
    "collections": {
        "docs": {"format": "msmarco-v1", "input": "/c/docs.tsv"},
        "more": {"format": "msmarco-v1", "input": "/c/more.tsv"},
    },
    "train": {
        "a": {"collection": "docs", "queries": "/c/q.tsv", "qrels": "/c/qrels.txt",
              "negatives": {"runs": ["/c/1.trec", "/c/2.trec"], "above_teacher": 0.0},
              "teacher": "/c/t.trec"},
        "b": {"collection": "more", "queries": "/c/q.tsv", "triples": "/c/triples.tsv"},
    },
    "dev": {"d": {"collection": "docs", "queries": "/c/d.tsv", "qrels": "/c/d.txt",
                  "run": "/c/d.trec"}},
    "loss": {"name": "cross-entropy"}, "optimiser": {"warmup": 2}, "steps": 100, "batch": 64,
    "validate": {"every": 4},
    "resources": {"backend": "inline"},
}  # fmt: skip


def recipe(**changes):
    body = json.loads(json.dumps(BODY))
    for key, value in changes.items():
        body[key] = {**body[key], **value} if isinstance(body.get(key), dict) else value
    return load_training(json.dumps(body), source="mine")
