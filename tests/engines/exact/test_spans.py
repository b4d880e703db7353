import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.engines.exact_candidates import ordered, plan_spans
from raypipe.errors import InputError
from raypipe.storage.records import Shard


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


def shards_of(*sizes):
    edges = [0, *itertools.accumulate(sizes)]
    return [Shard(i, start, stop) for i, (start, stop) in enumerate(itertools.pairwise(edges))]


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 40))
def test_spans_partition_the_rows_and_end_where_shards_end(sizes, num_actors):
    spans = plan_spans(shards_of(*sizes), num_actors)
    assert len(spans) == min(sum(size > 0 for size in sizes), 2 * num_actors)
    assert [row for start, stop in spans for row in range(start, stop)] == [*range(sum(sizes))]
    assert all(start < stop for start, stop in spans)
    assert {stop for _, stop in spans} <= {shard.stop for shard in shards_of(*sizes)}


@pytest.mark.parametrize(
    ("sizes", "num_actors", "expected"),
    [
        ([], 1, []),
        ([0], 1, []),
        ([5], 2, [(0, 5)]),
        ([1, 1, 1, 1, 1, 1], 1, [(0, 3), (3, 6)]),
        ([8, 1, 1], 1, [(0, 8), (8, 10)]),  # 5 and 5 rows are wanted
        ([1, 1, 8], 1, [(0, 2), (2, 10)]),
        ([1, 3, 2, 4], 1, [(0, 4), (4, 10)]),  # 4 and 6 rows are as near: the first of them
        ([9, 1, 1, 1], 2, [(0, 9), (9, 10), (10, 11), (11, 12)]),  # none is left without a shard
        ([1, 1, 1, 9], 2, [(0, 1), (1, 2), (2, 3), (3, 12)]),
    ],
)
def test_spans_have_about_equal_numbers_of_rows(sizes, num_actors, expected):
    assert plan_spans(shards_of(*sizes), num_actors) == expected


def test_spans_refuse_no_actors():
    with pytest.raises(InputError, match="0 actors"):
        plan_spans(shards_of(4), 0)
