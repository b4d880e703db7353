"""Twelve short documents in the fields of MS MARCO v2, and a recipe over them."""

import json

WORDS = "alpha beta gamma delta epsilon zeta eta theta".split()
LENGTHS = [3, 9, 1, 0, 14, 6, 2, 11, 5, 8, 4, 7]


def document(number, length=None):
    length = LENGTHS[number] if length is None else length
    body = " ".join(
        WORDS[(number * 3 + place * (number + 1)) % len(WORDS)] for place in range(length)
    )
    fields = {"docid": f"D{number}", "url": "u", "title": f"{WORDS[number % 8]} title"}
    return {**fields, "headings": "", "body": body}


def write_documents(path, documents):
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))


def write_inputs(folder):
    """docs.jsonl, queries.tsv, qrels of documents, and a run of documents."""
    write_documents(folder / "docs.jsonl", [document(n) for n in range(12)])
    (folder / "queries.tsv").write_text("q1\tbeta gamma\nq2\ttheta\nq3\tzeta alpha\n")
    (folder / "qrels.txt").write_text("q1 0 D1 2\nq1 0 D4 1\nq2 0 D7 1\n")
    lines = [f"{q} Q0 D{(n * 5) % 12} {n + 1} {9 - n} x\n" for q in ("q1", "q3") for n in range(4)]
    (folder / "documents.trec").write_text("".join(lines))


def recipe_of(folder, encoder, mono, **more):
    """Passages of three words found by vectors and scored, then documents by several methods."""
    return {
        "format": 1,
        "name": "documents",
        "collection": {
            "format": "msmarco-doc-v2",
            "input": str(folder / "docs.jsonl"),
            "split": {"length": 3, "stride": 2, "title_words": 1, "headings_words": 0},
        },
        "queries": {
            "test": {
                "file": str(folder / "queries.tsv"),
                "document_qrels": str(folder / "qrels.txt"),
            }
        },
        "models": {
            "encoder": {"path": str(encoder)},
            "mono": {"path": str(mono)},
            "again": {"path": str(mono)},
        },
        "stages": {
            "embeddings": {"do": "encode", "model": "encoder"},
            "dense": {"do": "search", "index": "embeddings", "depth": 20},
            "mono": {"do": "score", "run": "dense", "model": "mono", "k0": 12},
            "maxp": {"do": "documents", "run": "mono", "method": "maxp"},
            "kmax": {"do": "documents", "run": "mono", "method": "k-max-avgp", "k": 2},
            "mean-p": {"do": "documents", "run": "mono", "method": "avgp", "over": "probability"},
            "dense-sump": {"do": "documents", "run": "dense", "method": "sump", "depth": 5},
            "given": {
                "do": "read",
                "of": "documents",
                "runs": {"test": str(folder / "documents.trec")},
            },
            "windows": {"do": "passages", "run": "given", "documents": 3, "at_most": 2},
            "again": {"do": "score", "run": "windows", "model": "again", "score": "probability"},
            "again-firstp": {
                "do": "documents",
                "run": "again",
                "method": "firstp",
                "over": "probability",
            },
            "fused": {"do": "fuse", "runs": ["maxp", "given"], "method": "rrf", "depth": 7},
        },
        "evaluate": {"measures": ["RR@10", "nDCG@10"], "baseline": "maxp"},
        "runs": {"tsv": True},
        "resources": {"backend": "inline", "device": "cpu", "shard_rows": 5, "shard_queries": 2},
        **more,
    }
