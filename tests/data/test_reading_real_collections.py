"""Counts of real collections, where they are on this machine."""

import gzip
import os
import tempfile
from pathlib import Path

import pytest

from raypipe.data.facts import count_file
from raypipe.data.formats.car_topics import write_judgements, write_topics
from raypipe.data.formats.registry import get_format
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.data.reading import Tally, read_records

DATA = Path(os.environ.get("RAYPIPE_DATA", Path(__file__).parents[2] / "../shared/data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real collections at {DATA}")


def read_all(format, *inputs):
    passages, tally = [], Tally()
    for path in get_format(format).files([DATA / name for name in inputs]):
        facts = count_file(path, format=format)
        stop = facts.num_records
        passages += read_records(path, format=format, start=0, stop=stop, facts=facts, tally=tally)
        assert len(passages) == stop
    assert tally.num_replaced == 0
    return passages


def test_msmarco_v2_dl21():
    passages = read_all("msmarco-v1", "msmarco-v2-dl21")
    assert len(passages) == len({passage_id for passage_id, _ in passages}) == 33_184
    with gzip.open(DATA / "msmarco-v2-dl21/collection.tsv.gz") as file:
        content = file.read()
    assert "".join(f"{passage_id}\t{text}\n" for passage_id, text in passages).encode() == content
    qrels = read_qrels(DATA / "msmarco-v2-dl21/qrels.dl21.txt.gz")
    assert qrels.num_rows == 10_828
    assert set(qrels["passage_id"].to_pylist()) <= {passage_id for passage_id, _ in passages}
    queries = read_queries(DATA / "msmarco-v2-dl21/queries.dl21.tsv")
    judged = set(qrels["query_id"].to_pylist())
    kept = [query for query in queries if query[0] in judged]
    assert len(judged) == len(kept) == 53


def test_nfcorpus():
    passages = read_all("beir", "nfcorpus")
    assert len(passages) == 3_633
    sizes = {"train": (2_590, 110_575), "dev": (324, 11_385), "test": (323, 12_334)}
    for split, (num_queries, num_qrels) in sizes.items():
        qrels = read_qrels(DATA / f"nfcorpus/qrels/{split}.tsv.gz")
        assert qrels.num_rows == num_qrels
        judged = set(qrels["query_id"].to_pylist())
        queries = read_queries(DATA / "nfcorpus")
        assert len([query for query in queries if query[0] in judged]) == num_queries


@pytest.mark.parametrize(
    ("folder", "num_passages"), [("medquad-liveqa", 17_942), ("wikiqa", 26_196)]
)
def test_other_id_tab_text_collections(folder, num_passages):
    assert len(read_all("msmarco-v1", folder)) == num_passages


@pytest.mark.parametrize(
    ("format", "name", "first_id"),
    [
        ("msmarco-v2", "msmarco_v2_passage__docs.json", "msmarco_passage_00_0"),
        ("msmarco-v2", "msmarco_v2_passage_gz__docs.json.gz", "msmarco_passage_00_0"),
        ("pyserini", "msmarco-v1-passage__docs00.json", "0"),
        ("beir", "beir-nfcorpus__corpus.jsonl", "MED-10"),
    ],
)
def test_format_samples(format, name, first_id):
    passages = read_all(format, f"format-samples/{name}")
    assert passages[0][0] == first_id and all(text for _, text in passages)


@pytest.mark.parametrize(
    ("name", "num_queries"),
    [
        ("topics.msmarco-passage.dev-subset.txt.gz", 6_980),
        ("topics.msmarco-passage.test-subset.txt.gz", 6_837),
    ],
)
def test_msmarco_small_queries(name, num_queries):
    assert len(read_queries(DATA / "msmarco-topics" / name)) == num_queries


def test_msmarco_and_trec_car_qrels():
    topics = DATA / "msmarco-topics"
    assert read_qrels(topics / "qrels.msmarco-passage.dev-subset.txt.gz").num_rows == 7_437
    car = read_qrels(topics / "qrels.car17v1.5.benchmarkY1test.txt.gz")
    assert "%20" in car["query_id"][0].as_py()


def test_trec_car_test200():
    """Counts of the collection, and its own topics and automatic judgements as oracles."""
    folder = DATA / "trec-car-test200"
    passages = read_all("trec-car-tools", "trec-car-test200")
    joined = read_all("trec-car", "trec-car-test200")
    assert len(passages) == len(dict(passages)) == 4_689
    assert [name for name, _ in passages] == [name for name, _ in joined]
    assert sum(a != b for a, b in zip(passages, joined, strict=True)) > 3_000
    pages, outlines = (folder / f"train.test200.cbor{end}.gz" for end in ("", ".outlines"))
    sizes = {"article": (198, 198), "top-level": (1_122, 1_122), "hierarchical": (1_987, 1_860)}
    for level, (num_topics, num_judged) in sizes.items():
        with tempfile.TemporaryDirectory() as made:
            queries, qrels = Path(made) / "queries", Path(made) / "qrels"
            assert write_topics([outlines], level, queries) == num_topics
            write_judgements([pages], level, qrels)
            topics, judged = dict(read_queries(queries)), read_qrels(qrels)
        name = level.replace("-", "")
        released = read_qrels(folder / f"qrels.{name}.txt.gz")
        assert set(map(tuple, map(dict.values, judged.to_pylist()))) == set(
            map(tuple, map(dict.values, released.to_pylist()))
        )
        given = dict(read_queries(folder / f"queries.{name}.tsv.gz"))
        assert len(given) == num_judged and set(given) == set(judged["query_id"].to_pylist())
        # The given texts have real characters for all escapes, and slashes within headings.
        plain = [topic for topic in given if "%" not in topic.replace("%20", "")]
        assert sum(topics[topic] == given[topic] for topic in plain) > 0.97 * len(plain)
