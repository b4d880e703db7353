import numpy as np
import pytest

from raypipe.text.batching import batches


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


def test_batches_of_nothing_are_none():
    assert list(batches(np.empty(0, np.int64), budget_tokens=5)) == []
