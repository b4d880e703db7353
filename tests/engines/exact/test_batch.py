"""The coarse pass of exact search settles what it can prove and changes no place and no bit."""

import numpy as np
import pytest

from raypipe.engines import exact as batch
from raypipe.engines.exact import LEAST_QUERIES, num_kept, topk_block_stream
from raypipe.engines.exact_candidates import BestProducts
from raypipe.engines.exact_scores import NumpyProducts


class Rounded(NumpyProducts):
    """Products that keep few bits, and are `off` by more; `claimed` and `moved` are told of it."""

    rounding = 2.0**-8

    def __init__(self, off=0.0, claimed=0.0, moved=0.0, signs=(1, -1)):
        self.off, self.claimed, self.moved, self.asked = off, claimed, moved, []
        self.signs = np.array(signs, np.float32)

    def multiply(self, queries):
        self.asked.append(len(queries))
        precise, told = super().multiply(queries), iter([self.moved])

        def multiplied(vectors, out):
            precise(vectors, out)
            out += np.float32(self.off) * self.signs[np.arange(len(vectors)) % len(self.signs)]
            bits = out.view(np.uint32)
            bits += 1 << 15
            bits &= np.uint32(0xFFFF0000)
            return next(told, 0.0)

        return multiplied

    def error(self, queries, norms, *, longest, moved):
        precise = super().error(queries, norms, longest=longest, moved=moved)
        return precise + (self.claimed + moved) * norms


class Counted(NumpyProducts):
    def __init__(self):
        self.asked = []

    def multiply(self, queries):
        self.asked.append(len(queries))
        return super().multiply(queries)


def unit(num, dim, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((num, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def searched(queries, vectors, coarse, depth=20, **more):
    """The number of queries of each precise pass; all must be found as by the whole matrix."""
    precise = Counted()
    blocks = [(0, vectors[:700]), (700, vectors[700:])]
    rows, scores = topk_block_stream(
        queries, blocks, depth=depth, products=precise, coarse=coarse, **more
    )
    exact = (queries.astype("f8") @ vectors.astype("f8").T).astype("f4")
    order = np.argsort(-exact, axis=1, kind="stable")[:, :depth]
    assert np.array_equal(rows, order)
    assert np.array_equal(scores, np.take_along_axis(exact, order, 1))
    return precise.asked


@pytest.mark.parametrize("block_rows", [None, 64])
def test_what_the_coarse_pass_proves_needs_no_other(block_rows):
    coarse = Rounded()
    assert searched(unit(16, 48, 1), unit(3000, 48), coarse, block_rows=block_rows) == []
    assert coarse.asked == [16]


def test_few_queries_are_not_asked_of_it():
    coarse = Rounded()
    queries, vectors = unit(LEAST_QUERIES, 48, 1), unit(3000, 48)
    assert searched(queries[1:], vectors, coarse) == [LEAST_QUERIES - 1]
    assert coarse.asked == []
    assert searched(queries, vectors, coarse) == []
    assert coarse.asked == [LEAST_QUERIES]


def test_queries_that_it_does_not_settle_go_on_alone():
    queries, vectors = unit(32, 48, 1), unit(3000, 48)
    best = np.argsort(-(queries[3].astype("f8") @ vectors.astype("f8").T))
    vectors[best[15:200]] = vectors[best[15]]  # more duplicates at its cut than it keeps
    told = []
    assert searched(queries, vectors, Rounded(), on_second_pass=told.append) == [1]
    assert told == [1], "the duplicates are too many for the precise pass as well"


def test_near_scores_that_only_float32_tells_apart_are_ordered_exactly():
    vectors = np.zeros((2000, 32), np.float16)
    vectors[:, 0] = 1
    vectors[:, 1] = np.random.default_rng(2).permutation(2000) * 2.0**-16
    queries = np.repeat(np.array([[1, 1] + [0] * 30], np.float16), 20, axis=0)
    assert searched(queries, vectors, Rounded()) == [20]


@pytest.mark.parametrize("signs", [(1, -1), (1,), (-1,)])
@pytest.mark.parametrize("off", [0.02, 5.0])
def test_a_library_that_is_further_off_than_it_tells_is_not_believed(off, signs):
    # It is seen at the candidates, also where all products are off alike and the order is right.
    queries, vectors = unit(24, 48, 1), unit(3000, 48)
    assert searched(queries, vectors, Rounded(off, signs=signs)) == [24]
    assert searched(queries, vectors, Rounded(off, claimed=off)) in ([24], [])


def test_an_error_that_is_told_is_allowed_for():
    queries, vectors = unit(24, 48, 1), unit(3000, 48)
    for told in ({"claimed": 0.001}, {"moved": 0.001}):  # the latter by the first block alone
        assert searched(queries, vectors, Rounded(0.001, **told), block_rows=64) == []


def test_once_it_leaves_too_many_the_next_batches_do_without_it(monkeypatch):
    monkeypatch.setattr("raypipe.engines.exact.MAX_BATCH_QUERIES", 32)
    vectors = unit(3000, 48)
    spoilt = Rounded(0.5)
    assert searched(unit(96, 48, 1), vectors, spoilt) == [32, 32, 32]
    assert spoilt.asked == [32]
    good = Rounded()
    assert searched(unit(96, 48, 1), vectors, good) == []
    assert good.asked == [32, 32, 32]


@pytest.mark.parametrize("unsettled", [4, 5])
def test_an_eighth_of_the_queries_may_be_left(monkeypatch, unsettled):
    monkeypatch.setattr("raypipe.engines.exact.MAX_BATCH_QUERIES", 32)
    queries, vectors = unit(64, 48, 1), unit(3000, 48)
    queries[:unsettled] = 0  # all scores are equal
    coarse = Rounded()
    assert searched(queries, vectors, coarse) == [unsettled, *([32] if unsettled > 4 else [])]
    assert coarse.asked == ([32, 32] if unsettled <= 4 else [32])


def test_only_candidates_that_can_be_among_the_best_are_scored(monkeypatch):
    counted = []
    scored = batch.exact_scores_of

    def counting(queries, rows, *given, **named):
        counted.append((rows >= 0).sum(axis=1))
        return scored(queries, rows, *given, **named)

    monkeypatch.setattr(batch, "exact_scores_of", counting)
    queries, vectors = unit(8, 48, 1), unit(3000, 48)
    assert searched(queries, vectors, None, depth=200) == [8]
    assert counted[0].tolist() == [200] * 8
    assert num_kept(200, 3000) == 244


def test_a_search_that_keeps_every_row_is_proven_by_that():
    for num in (20, 94):
        assert searched(unit(16, 8, 1), unit(num, 8), Rounded(), depth=20) == []
        assert num_kept(20, num, coarse=True) == num


def entered(best, scores, first=0):
    """Enters a block as the first pass does: what is above the floors, by query."""
    queries, places = np.nonzero(scores > best.floor[:, np.newaxis])
    best.enter(queries, places + first, scores[queries, places])


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal"])
@pytest.mark.parametrize("kept", [1, 7, 60])
@pytest.mark.parametrize("block", [1, 9, 400])
def test_the_largest_are_kept_whatever_comes_first(order, kept, block):
    rng = np.random.default_rng(kept)
    scores = rng.standard_normal((70, 400)).astype(np.float32)
    if order == "equal":
        scores[:] = 0.5
    elif order != "random":
        scores.sort(axis=1)
        scores = scores if order == "ascending" else scores[:, ::-1]
    best = BestProducts(70, kept)
    floors = [best.floor.copy()]
    for start in range(0, 400, block):
        entered(best, scores[:, start : start + block], start)
        assert (best.floor >= floors[-1]).all()
        floors.append(best.floor.copy())
    best.cut()
    assert (best.counts == kept).all()
    found = np.sort(best.products[:, :kept], axis=1)
    assert np.array_equal(found, np.sort(scores, axis=1)[:, -kept:])
    rows = best.rows[:, :kept]
    assert np.array_equal(np.take_along_axis(scores, rows, 1), best.products[:, :kept])
    assert all(len(set(row)) == kept for row in rows.tolist())
    assert np.array_equal(best.floor, found[:, 0])


def test_lists_that_are_not_full_have_no_floor():
    best = BestProducts(2, 3)
    best.enter(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0]), np.arange(4, dtype=np.float32))
    best.cut()
    assert best.floor.tolist() == [0.0, -np.inf] and best.counts.tolist() == [3, 1]
