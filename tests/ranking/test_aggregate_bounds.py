import numpy as np
import pytest

from raypipe.ranking.aggregate import SMALLEST, aggregate

NONE = np.empty(0, np.int64)


def ints(*values):
    return np.array(values, np.int64)


def test_binary_counts_what_is_above_one_half_and_not_one_half_itself():
    above = np.nextafter(np.float32(0.5), np.float32(1))
    keys = ints(0, 0, 0), ints(1, 1, 2), ints(2, 3, 1)
    _, rows, scores = aggregate(keys, np.array([0.5, above, 0.5], np.float32), method="binary")
    assert rows.tolist() == [1, 2] and scores.tolist() == [1.0, 0.0]


def test_a_probability_of_0_or_1_has_the_logarithm_of_the_smallest_number():
    keys = ints(0, 0), ints(1, 2), ints(2, 1)
    _, _, scores = aggregate(keys, np.array([0.0, 1.0], np.float32), method="symmetric-log-sum")
    # log p(1, 2) + log(1 - p(2, 1)), both of 0; the other has log 1 twice.
    assert SMALLEST == 2.0**-126
    assert scores.tolist() == [np.float32(2 * np.log(2.0**-126)), 0.0]


@pytest.mark.parametrize(("method", "expected"), [("min", [0.25, 0.5]), ("max", [0.75, 0.5])])
def test_least_and_greatest_are_over_each_passages_own_pairs(method, expected):
    keys = ints(3, 3, 3), ints(1, 1, 2), ints(2, 3, 1)
    found = aggregate(keys, np.array([0.75, 0.25, 0.5], np.float32), method=method)
    assert found[0].tolist() == [3, 3] and found[2].tolist() == expected


def test_a_symmetric_sum_passes_over_passages_that_no_pair_begins_with():
    keys = ints(0, 0), ints(1, 1), ints(2, 3)
    found = aggregate(keys, np.array([0.25, 0.5], np.float32), method="symmetric-sum")
    assert [part.tolist() for part in found] == [[0], [1], [0.75]]
    none = aggregate((NONE, NONE, NONE), np.empty(0, np.float32), method="symmetric-sum")
    assert [len(part) for part in none] == [0, 0, 0]


def test_a_symmetric_sum_keeps_queries_apart():
    keys = ints(0, 0, 1), ints(1, 2, 1), ints(2, 1, 2)
    _, _, scores = aggregate(keys, np.array([0.25, 0.5, 0.125], np.float32), method="symmetric-sum")
    assert scores.tolist() == [0.25 + 0.5, 0.5 + 0.75, 0.125]
