"""Ties by row, Anserini's own scores."""

import math

import pytest

from raypipe.engines.lucene.search import LuceneSearcher, search_all

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
