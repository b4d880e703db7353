"""RM3's own order, cuts and settings; its agreement with pyserini is tested with the exports."""

import numpy as np
import pytest
from lucene_here import built_here

from raypipe.engines.lucene.search import Feedback, LuceneSearcher

pytestmark = pytest.mark.jvm

# `crossing` is in all passages and so gives no word (more than a tenth have it); pairs tie.
TEXTS = [f"zebra w{n // 2} w{n // 2 + 1} w{n // 4 + 20} crossing" for n in range(40)]
TEXTS += [f"horse h{n}" for n in range(30)]
TEXTS += ["tier hündin1", "tier hündin2", "hündin1 sonst"]
BM25 = {"k1": 0.9, "b": 0.4}


@pytest.fixture(scope="module")
def searcher(tmp_path_factory):
    folder, _ = built_here(tmp_path_factory.mktemp("lucene"), TEXTS)
    return LuceneSearcher(folder)


def test_a_query_finds_what_its_first_passages_words_find(searcher):
    plain, _ = searcher.search("w3", **BM25, depth=100)
    rows, scores = searcher.search("w3", **BM25, depth=100, rm3=Feedback())
    assert set(plain.tolist()) < set(rows.tolist())
    assert (np.diff(scores) <= 0).all()


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 13])
def test_a_smaller_depth_is_the_beginning_of_a_larger_one_and_ties_go_by_row(searcher, depth):
    whole, of_whole = searcher.search("w3 w9", **BM25, depth=100, rm3=Feedback())
    rows, scores = searcher.search("w3 w9", **BM25, depth=depth, rm3=Feedback())
    assert rows.tolist() == whole[:depth].tolist()
    assert scores.tolist() == of_whole[:depth].tolist()
    order = np.lexsort((whole, -of_whole))
    assert order.tolist() == list(range(len(whole)))
    assert len(set(of_whole.tolist())) < len(of_whole)


def test_every_setting_reaches_it(searcher):
    def scores(**settings):
        return searcher.search("w3 h3", **BM25, depth=100, rm3=Feedback(**settings))[1].tolist()

    standard = scores()
    assert scores() == standard
    changes = [{"fb_terms": 2}, {"fb_docs": 1}, {"original_query_weight": 0.1}]
    others = [scores(**change) for change in changes]
    assert all(other != standard for other in others)
    # With the whole weight on its own words, the query finds what it found without RM3.
    rows, _ = searcher.search("w3 h3", **BM25, depth=5, rm3=Feedback(original_query_weight=1.0))
    assert rows.tolist() == searcher.search("w3 h3", **BM25, depth=5)[0].tolist()


def test_passages_far_below_the_first_give_words_too(searcher):
    def scores(fb_docs):
        rm3 = Feedback(fb_docs=fb_docs, fb_terms=50)
        return searcher.search("zebra", **BM25, depth=100, rm3=rm3)[1].tolist()

    assert scores(5) != scores(20) != scores(39)


def test_words_come_from_fifty_passages_at_most_and_of_equal_ones_by_id_as_text(searcher):
    """After p0 and p1 comes p10, with w5 and w6; after 30 horses and those before it p26, the
    50th, with w14."""

    def found(query, **settings):
        rm3 = Feedback(fb_terms=200, **settings)
        rows, scores = searcher.search(query, **BM25, depth=100, rm3=rm3)
        return dict(zip(rows.tolist(), scores.tolist(), strict=True))

    of_three = found("zebra", fb_docs=3)
    assert of_three[10] > of_three[6] == of_three[4]
    of_fifty = found("crossing horse", fb_docs=50)
    assert of_fifty[28] > of_fifty[30]
    assert found("crossing horse", fb_docs=51) == of_fifty


def test_only_words_of_letters_and_digits_expand_a_query_unless_all_may(searcher):
    def found(**settings):
        return searcher.search("tier", **BM25, depth=9, rm3=Feedback(**settings))[0].tolist()

    assert found() == [70, 71]
    assert sorted(found(filter_terms=False)) == [70, 71, 72]


def test_a_query_that_finds_nothing_finds_nothing_with_it(searcher):
    for text in ("unicorn", "", "the of"):
        rows, scores = searcher.search(text, **BM25, depth=5, rm3=Feedback())
        assert (rows.dtype, scores.dtype) == (np.int64, np.float32)
        assert len(rows) == len(scores) == 0
