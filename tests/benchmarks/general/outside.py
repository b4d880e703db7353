"""The collections that no training of general_rerankers.md saw, with their first stages."""

import gzip
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import raypipe

DATA = Path(os.environ.get("RAYPIPE_DATA", ""))
SEED = 17
DEEP = 5000
"""Depth of the runs that score candidates."""
Run = dict[str, dict[str, float]]
"""query id -> passage id -> score."""
RESOURCES = {"backend": "inline", "precision": "bf16", "threads": 1}


@dataclass(frozen=True)
class Outside:
    """A collection with the queries that are measured."""

    collection: dict[str, Any]
    queries: str
    """A file below the data's folder."""
    qrels: str
    candidates: int
    measure: str = "nDCG@10"
    sample: int | None = None
    lists: bool = False
    """Whether the judged passages are the candidates, in the order of the file."""


OUTSIDE = {
    "dl21": Outside(
        {"format": "msmarco-v1", "input": str(DATA / "msmarco-v2-dl21/collection.tsv.gz")},
        "msmarco-v2-dl21/queries.dl21.tsv",
        "msmarco-v2-dl21/qrels.dl21.txt.gz",
        candidates=50,
    ),
    "nfcorpus": Outside(
        {"format": "beir", "input": str(DATA / "nfcorpus")},
        "nfcorpus/queries.jsonl.gz",
        "nfcorpus/qrels/test.tsv.gz",
        candidates=30,
        sample=150,
    ),
    "car": Outside(
        {
            "format": "trec-car",
            "input": str(DATA / "trec-car-test200/train.test200.cbor.paragraphs.gz"),
        },
        "trec-car-test200/queries.hierarchical.tsv.gz",
        "trec-car-test200/qrels.hierarchical.txt.gz",
        candidates=30,
        sample=150,
    ),
    "wikiqa": Outside(
        {"format": "msmarco-v1", "input": str(DATA / "wikiqa/collection.tsv.gz")},
        "wikiqa/queries.test.tsv.gz",
        "wikiqa/qrels.test.txt.gz",
        candidates=1000,
        measure="AP",
        lists=True,
    ),
}


def write_queries(name: str, folder: Path) -> None:
    """queries.tsv and qrels.txt: the queries with a relevant passage, or a sample of them."""
    outside = OUTSIDE[name]
    qrels = [line.split() for line in lines_of(DATA / outside.qrels)]
    if qrels[0][0] == "query-id":
        qrels = [[query, "0", passage, grade] for query, passage, grade in qrels[1:]]
    ids = sorted({query for query, _, _, grade in qrels if int(grade) > 0})
    if outside.sample is not None:
        Random(SEED).shuffle(ids)
        ids = ids[: outside.sample]
    texts = dict(map(_query, lines_of(DATA / outside.queries)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "queries.tsv").write_text("".join(f"{query}\t{texts[query]}\n" for query in ids))
    kept = [" ".join(line) + "\n" for line in qrels if line[0] in set(ids)]
    (folder / "qrels.txt").write_text("".join(kept))


def first_stages(name: str, out: Path) -> dict[str, Run]:
    """The runs bm25, dense and fused, and the deep ones; computed where they are not there."""
    recipe = recipe_of(name, out) | {
        "models": {"minilm": {"path": "minilm"}},
        "resources": RESOURCES | {"precision": "fp32"},
        "stages": {
            "lucene": {"do": "index"},
            "embeddings": {"do": "encode", "model": "minilm"},
            "bm25": {"do": "search", "index": "lucene", "depth": 1000},
            "dense": {"do": "search", "index": "embeddings", "depth": 1000},
            "fused": {"do": "fuse", "runs": ["bm25", "dense"], "method": "rrf"},
            "bm25-deep": {"do": "search", "index": "lucene", "depth": DEEP},
            "dense-deep": {"do": "search", "index": "embeddings", "depth": DEEP},
        },
    }
    raypipe.run(recipe, out / name / "first")
    runs = out / name / "first/runs/test"
    return {path.stem: read_run(path) for path in sorted(runs.glob("*.trec"))}


def log_odds(name: str, out: Path, model: str, candidates: Run) -> Run:
    """f of every candidate."""
    run = out / name / "candidates.trec"
    lines = [
        f"{query} Q0 {passage} {rank} {1 / rank} candidates\n"
        for query, passages in candidates.items()
        for rank, passage in enumerate(passages, start=1)
    ]
    run.write_text("".join(lines))
    mono = {"do": "score", "run": "read", "model": "mono", "blend": 0, "tail": "drop"}
    recipe = recipe_of(name, out) | {
        "models": {"mono": {"path": model}},
        "stages": {"read": {"do": "read", "runs": {"test": str(run)}}, "mono": mono},
    }
    raypipe.run(recipe, out / name / Path(model).name)
    found = read_run(out / name / Path(model).name / "runs/test/mono.trec")
    return {q: {p: _log_odds(score) for p, score in each.items()} for q, each in found.items()}


def _log_odds(log_probability: float) -> float:
    """log(p / (1 - p)) of log p, which is below 0 unless it was rounded."""
    other = -math.expm1(min(log_probability, -1e-45))
    return log_probability - math.log(other)


def read_run(path: Path) -> Run:
    """A run in TREC's format."""
    found: Run = {}
    for line in path.read_text().splitlines():
        query, _, passage, _, score, _ = line.split()
        found.setdefault(query, {})[passage] = float(score)
    return found


def lines_of(path: Path) -> list[str]:
    """The lines of a file, of a compressed one too."""
    body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return body.decode().splitlines()


def _query(line: str) -> tuple[str, str]:
    if line.startswith("{"):
        found = json.loads(line)
        return found["_id"], found["text"]
    key, text = line.split("\t", 1)
    return key, text


def recipe_of(name: str, out: Path) -> dict[str, Any]:
    """A recipe over the collection without models and stages."""
    return {
        "format": 1,
        "name": name,
        "collection": OUTSIDE[name].collection,
        "queries": {"test": {"file": str(out / name / "queries.tsv")}},
        "resources": RESOURCES,
        "stores": str(out / name / "stores"),
    }
