import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.text.batches import batches, spans


@given(st.lists(st.integers(2, 40), max_size=60), st.integers(1, 100))
def test_batches_hold_every_row_once_within_the_budget_by_length(lengths, budget):
    sizes = np.array(lengths, np.int64)
    found = list(batches(sizes, budget_tokens=budget))
    order = [row for batch in found for row in batch.tolist()]
    assert order == sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    assert all(len(batch) == 1 or sizes[batch].sum() <= budget for batch in found)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (5, [[1], [3], [0], [2]]),
        (6, [[1, 3], [0], [2]]),
        (9, [[1, 3], [0], [2]]),
        (10, [[1, 3, 0], [2]]),
        (14, [[1, 3, 0], [2]]),
        (17, [[1, 3, 0, 2]]),
        (1, [[1], [3], [0], [2]]),
    ],
)
def test_batches_are_filled_to_the_budget_and_not_beyond(budget, expected):
    found = batches(np.array([4, 3, 7, 3]), budget_tokens=budget)
    assert [batch.tolist() for batch in found] == expected


@pytest.mark.parametrize(
    ("sizes", "ends"),
    [
        ([5], [1]),
        ([6], [1]),
        ([2, 3, 1, 4, 5], [2, 4, 5]),
        ([9, 0, 5, 6, 1], [1, 3, 4, 5]),
        ([0, 0, 5, 0], [4]),
        ([1] * 12, [5, 10, 12]),
    ],
)
def test_spans_are_filled_in_order_or_hold_one_larger_size(sizes, ends):
    assert list(spans(np.array(sizes), 5)) == list(zip([0, *ends[:-1]], ends, strict=True))


def test_of_nothing_there_are_no_batches_and_spans():
    nothing = np.empty(0, np.int64)
    assert list(batches(nothing, budget_tokens=5)) == list(spans(nothing, 5)) == []
