import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.errors import InputError
from raypipe.search.exact.spans import merge_topk, plan_spans


def part(*pairs: tuple[int, float]) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = zip(*pairs, strict=True)
    return np.array([rows], np.int64), np.array([scores], np.float32)


def test_merge_orders_by_score_then_row_whatever_the_order_of_the_parts():
    parts = [part((9, 2.0), (7, 1.0)), part((1, 1.0), (30, 0.5)), part((4, 2.0), (3, 1.0))]
    for order in itertools.permutations(parts):
        rows, scores = merge_topk(order, 5)
        assert rows.tolist() == [[4, 9, 1, 3, 7]]
        assert scores.tolist() == [[2.0, 2.0, 1.0, 1.0, 1.0]]
        assert (rows.dtype, scores.dtype) == (np.int64, np.float32)


def test_merge_puts_missing_places_last_and_ignores_their_scores():
    rows, scores = merge_topk([part((-1, 5.0), (2, -7.0)), part((-1, np.nan))], 3)
    assert rows.tolist() == [[2, -1, -1]]
    assert scores.tolist() == [[-7.0, -np.inf, -np.inf]]


def test_merge_treats_both_zeros_as_one_score():
    rows, scores = merge_topk([part((5, 0.0)), part((2, -0.0))], 2)
    assert rows.tolist() == [[2, 5]]
    assert not np.signbit(scores).any()


def test_merge_of_no_queries_has_the_depth():
    empty = (np.empty((0, 4), np.int64), np.empty((0, 4), np.float32))
    rows, scores = merge_topk([empty, empty], 3)
    assert rows.shape == scores.shape == (0, 3)


def test_merge_in_query_chunks_equals_merge_in_one(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [
        (
            np.arange(60, dtype=np.int64).reshape(10, 6) + 100 * number,
            rng.integers(0, 3, (10, 6)).astype(np.float32),
        )
        for number in range(3)
    ]
    whole = merge_topk(parts, 7)
    monkeypatch.setattr("raypipe.search.exact.spans.MERGE_CELLS", 40)
    for one, other in zip(whole, merge_topk(parts, 7), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("parts", "depth", "words"),
    [
        ([], 3, "no parts"),
        ([part((1, 1.0))], 0, "depth is 0"),
        ([part((1, np.nan))], 1, "NaN"),
        ([part((2, 1.0), (0, np.nan))], 1, "NaN"),
        ([part((1, 1.0)), part((1, 1.0))], 2, "passage row 1 came twice"),
        ([part((9, 3.0), (1, 1.0)), part((1, 1.0))], 3, "passage row 1 came twice"),
        ([(np.zeros((1, 2), np.int64), np.zeros((1, 3), np.float32))], 2, "expected both"),
        ([part((1, 1.0)), (np.zeros((2, 1), np.int64), np.zeros((2, 1), np.float32))], 1, "part 1"),
    ],
)
def test_merge_refuses(parts, depth, words):
    with pytest.raises(InputError, match=words):
        merge_topk(parts, depth)


@given(st.integers(0, 400), st.integers(1, 40))
def test_spans_partition_the_shards_evenly(num_shards, num_actors):
    spans = plan_spans(num_shards, num_actors)
    assert [shard for first, last in spans for shard in range(first, last)] == [*range(num_shards)]
    assert len(spans) == min(num_shards, 2 * num_actors)
    sizes = [last - first for first, last in spans]
    assert not sizes or (min(sizes) >= 1 and max(sizes) - min(sizes) <= 1)


def test_spans_refuse_no_actors():
    with pytest.raises(InputError, match="0 actors"):
        plan_spans(4, 0)
