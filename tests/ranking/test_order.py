"""The one order: score descending, then row ascending."""

import numpy as np
import pytest

from raypipe.errors import InputError
from raypipe.ranking.order import begins, check_finite, order, order_table, ranks


def f32(*values):
    return np.array(values, dtype=np.float32)


def test_order_is_score_descending_then_row_ascending():
    scores = f32(1.0, 3.0, 1.0, 2.0, 3.0)
    rows = np.array([9, 8, 2, 5, 1])
    assert order(scores, rows).tolist() == [4, 1, 3, 2, 0]


def test_order_ties_minus_zero_with_zero():
    assert order(f32(0.0, -0.0), np.array([2, 1])).tolist() == [1, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_order_refuses_what_is_not_finite_and_names_the_position(bad):
    with pytest.raises(InputError, match=r"1 of 3 are not finite .*1: "):
        order(f32(1.0, bad, 2.0), np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="position"):
        order_table(np.zeros(3, np.int32), f32(1.0, bad, 2.0), np.array([0, 1, 2]))


def test_order_table_equals_order_query_by_query():
    rng = np.random.default_rng(3)
    queries = rng.integers(0, 7, 500).astype(np.int32)
    scores = rng.integers(0, 9, 500).astype(np.float32)
    rows = rng.permutation(500)
    expected = []
    for query in range(7):
        mine = np.flatnonzero(queries == query)
        expected += mine[order(scores[mine], rows[mine])].tolist()
    assert order_table(queries, scores, rows).tolist() == expected


def test_ranks_start_from_one_in_every_group():
    assert ranks(np.array([4, 4, 4, 1, 9, 9])).tolist() == [1, 2, 3, 1, 1, 2]
    assert ranks(np.array([], dtype=np.int32)).tolist() == []


def test_a_group_begins_where_any_column_changes():
    queries, names = np.array([1, 1, 1, 2, 2]), np.array(["a", "b", "b", "b", "b"], object)
    assert begins(queries).tolist() == [True, False, False, True, False]
    assert begins(queries, names).tolist() == [True, True, False, True, False]
    assert begins(queries[:0], names[:0]).tolist() == []


NONE = np.empty(0, np.int64)


def ints(*values):
    return np.array(values, np.int64)


def test_ranks_of_no_lines_of_one_and_of_changing_groups():
    assert ranks(NONE).tolist() == [] and ranks(NONE).dtype == np.int32
    assert ranks(ints(4)).tolist() == [1]
    assert ranks(ints(4, 4, 2, 4, 4, 4)).tolist() == [1, 2, 1, 1, 2, 3]
    assert order(np.empty(0, np.float32), NONE).tolist() == []


def test_scores_that_are_not_finite_are_named_up_to_ten():
    scores = np.zeros(14, np.float32)
    check_finite(scores)
    scores[2:] = np.nan
    with pytest.raises(InputError) as caught:
        check_finite(scores)
    assert "12 of 14" in str(caught.value)
    assert "11: nan" in str(caught.value) and "12: nan" not in str(caught.value)
