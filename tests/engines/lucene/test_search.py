"""Ties by row, Anserini's own scores, and indexes of other versions of Lucene."""

import math
import shutil
import zlib

import pytest

from raypipe.engines.lucene.search import LuceneSearcher, search_all
from raypipe.errors import InputError

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def searcher(zebra_index):
    return LuceneSearcher(zebra_index)


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


def with_bytes(folder, *changes):
    """The index with bytes of its list of segments replaced, and the checksum to match.

    Source: SegmentInfos and CodecUtil, Lucene 9.9.
    """
    path = folder / "segments_1"
    body = bytearray(path.read_bytes()[:-8])
    for at, value in changes:
        body[at : at + len(value)] = value
    path.write_bytes(bytes(body) + zlib.crc32(body).to_bytes(8, "big"))


WROTE, CREATED = 35, 38
"""Places of the major versions that wrote the index and made it first, behind the header."""


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ([(WROTE, b"\x0b"), (CREATED, b"\x0b")], "indexCreatedVersionMajor is in the future: 11"),
        ([(CREATED, b"\x01")], ""),  # each Lucene says it in other words
    ],
)
def test_an_index_of_another_lucene_is_refused_with_what_to_do(
    tmp_path, zebra_index, versions, message
):
    folder = shutil.copytree(zebra_index, tmp_path / "index")
    with_bytes(folder)
    LuceneSearcher(folder)
    with_bytes(folder, *versions)
    with pytest.raises(InputError) as caught:
        LuceneSearcher(folder)
    told = str(caught.value)
    assert told.startswith(f"{folder}: another version of Lucene wrote this index ({message}")
    assert "install the pyserini that wrote it, or index the passages again" in told


def test_an_index_with_the_codec_of_a_later_lucene_is_refused_too(tmp_path, zebra_index):
    folder = shutil.copytree(zebra_index, tmp_path / "index")
    at = (folder / "segments_1").read_bytes().rindex(b"Lucene")
    with_bytes(folder, (at, b"Lucene88"))
    with pytest.raises(InputError, match="another version of Lucene .*Could not load codec"):
        LuceneSearcher(folder)
