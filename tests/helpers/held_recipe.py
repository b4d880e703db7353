"""The recipe of a workspace that exists."""

HELD = {
    "format": 1,
    "name": "held",
    "collection": {"format": "msmarco-v1", "input": "/c/passages.tsv"},
    "queries": {"dev": {"file": "/c/q.tsv", "qrels": "/c/qrels.txt"}},
    "models": {"minilm": {"path": "minilm"}, "duo": {"path": "/m/duo"}},
    "stages": {
        "lucene": {"do": "index"},
        "vectors": {"do": "encode", "model": "minilm"},
        "bm25": {"do": "search", "index": "lucene", "depth": 50},
        "pairs": {"do": "score", "run": "bm25", "model": "duo", "k1": 9},
    },
    "evaluate": {"measures": ["RR@10"], "baseline": "bm25"},
}
