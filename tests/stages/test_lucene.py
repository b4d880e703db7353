"""Lucene: bytes that depend on the passages alone, ties by row, Anserini's own scores."""

import hashlib
import math

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import CorruptError
from raypipe.search.lucene.index import build_index
from raypipe.search.lucene.java import find_java
from raypipe.search.lucene.pack import pack_folder, unpack_folder
from raypipe.search.lucene.search import LuceneSearcher, search_all
from raypipe.search.lucene.segment import make_timeless

pytestmark = pytest.mark.jvm

TEXTS = [
    "zebra crossing",
    "",
    "zebra zebra stripes",
    " \t",
    "zebra crossing",
    "horses",
    "zebra crossing",
]


def table(texts):
    ids = [f"p{row}" for row in range(len(texts))]
    return pa.table([ids, texts], schema=schema.PASSAGES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lucene") / "index"
    assert build_index(lambda: [table(TEXTS)], folder) == 5
    return folder


@pytest.fixture(scope="module")
def searcher(folder):
    return LuceneSearcher(folder)


def test_a_java_that_lucene_can_run_on_is_found():
    assert int(find_java().version.partition(".")[0]) >= 21


def test_two_builds_have_the_same_bytes(folder, tmp_path):
    halves = [table(TEXTS).slice(0, 3), table(TEXTS).slice(3)]
    build_index(lambda: halves, tmp_path / "index")
    for number, built in enumerate((folder, tmp_path / "index")):
        pack_folder(built, tmp_path / f"{number}.tar")
    packed = [(tmp_path / f"{number}.tar").read_bytes() for number in range(2)]
    assert hashlib.sha256(packed[0]).digest() == hashlib.sha256(packed[1]).digest()


def test_a_packed_index_is_searched_as_before(folder, searcher, tmp_path):
    pack_folder(folder, tmp_path / "packed")
    unpack_folder(tmp_path / "packed", tmp_path / "again")
    found = LuceneSearcher(tmp_path / "again").search("zebra", k1=0.9, b=0.4, depth=10)
    expected = searcher.search("zebra", k1=0.9, b=0.4, depth=10)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("depth", [1, 2, 3, 10])
def test_ties_go_by_row_at_the_cut_too_and_empty_passages_are_never_found(searcher, depth):
    rows, scores = searcher.search("crossing", k1=0.9, b=0.4, depth=depth)
    assert rows.tolist() == [0, 4, 6][:depth]
    assert len(set(scores.tolist())) == 1


def test_scores_follow_bm25(searcher):
    """Robertson's BM25 as Lucene has it: idf * tf / (tf + k1 (1 - b + b len / avglen))."""
    k1, b = 0.9, 0.4
    rows, scores = searcher.search("stripes", k1=k1, b=b, depth=10)
    idf = math.log(1 + (5 - 1 + 0.5) / (1 + 0.5))
    average = (2 + 3 + 2 + 1 + 2) / 5
    expected = idf * 1 / (1 + k1 * (1 - b + b * 3 / average))
    assert rows.tolist() == [2]
    assert scores[0] == pytest.approx(expected, rel=1e-5)


def test_queries_without_a_known_word_find_nothing_and_long_ones_work(searcher):
    queries = ["", "unicorn", "the of", " ".join(f"word{n}" for n in range(5000)) + " horse"]
    positions, rows, _ = search_all(searcher, queries, k1=0.9, b=0.4, depth=5)
    assert positions.tolist() == [3]
    assert rows.tolist() == [5]


def test_a_segment_description_of_another_layout_is_refused(tmp_path):
    (tmp_path / "_0.si").write_bytes(b"\x3f\xd7\x6c\x17\x03abc" + bytes(100))
    with pytest.raises(CorruptError, match="_0.si"):
        make_timeless(tmp_path)
