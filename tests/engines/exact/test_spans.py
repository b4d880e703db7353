import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.engines.exact.spans import ordered, plan_spans
from raypipe.errors import InputError


def lists(*pairs: tuple[int, float]) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = zip(*pairs, strict=True)
    return np.array([rows], np.int64), np.array([scores], np.float32)


def test_order_is_by_score_then_row():
    rows, scores = ordered(*lists((9, 2.0), (7, 1.0), (1, 1.0), (30, 0.5), (4, 2.0), (3, 1.0)))
    assert rows.tolist() == [[4, 9, 1, 3, 7, 30]]
    assert scores.tolist() == [[2.0, 2.0, 1.0, 1.0, 1.0, 0.5]]
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)


def test_missing_places_are_last_and_their_scores_are_ignored():
    rows, scores = ordered(*lists((-1, 5.0), (2, -7.0), (-1, np.nan)))
    assert rows.tolist() == [[2, -1, -1]]
    assert scores.tolist() == [[-7.0, -np.inf, -np.inf]]


def test_both_zeros_are_one_score():
    rows, scores = ordered(*lists((5, 0.0), (2, -0.0)))
    assert rows.tolist() == [[2, 5]]
    assert not np.signbit(scores).any()


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
