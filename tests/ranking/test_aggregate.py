"""Aggregation by its equations, and where a probability is 0."""

import math

import numpy as np
import pytest

from raypipe.ranking.aggregate import RULES, SMALLEST, aggregate
from raypipe.ranking.candidates import pairs

# One query, passages 4, 7, 9: p(4,7)=.75 p(4,9)=.5 p(7,4)=.125 p(7,9)=1 p(9,4)=.625 p(9,7)=0
KEYS = (
    np.zeros(6, np.int64),
    np.array([4, 4, 7, 7, 9, 9]),
    np.array([7, 9, 4, 9, 4, 7]),
)


P = np.array([0.75, 0.5, 0.125, 1.0, 0.625, 0.0], np.float32)


BY_HAND = {
    "sum": [1.25, 1.125, 0.625],
    "binary": [1, 1, 1],
    "min": [0.5, 0.125, 0.0],
    "max": [0.75, 1.0, 0.625],
    "sample": [1.25, 1.125, 0.625],
    # own sum + (1 - p(j, i)) of both others
    "symmetric-sum": [1.25 + 0.875 + 0.375, 1.125 + 0.25 + 1.0, 0.625 + 0.5 + 0.0],
}


@pytest.mark.parametrize("method", BY_HAND)
def test_each_method_equals_its_equation(method):
    queries, rows, scores = aggregate(KEYS, P, method=method)
    assert queries.tolist() == [0, 0, 0] and rows.tolist() == [4, 7, 9]
    assert scores.tolist() == BY_HAND[method]


def test_symmetric_log_sum_equals_its_equation():
    p = np.array([0.75, 0.5, 0.125, 0.25, 0.625, 0.5], np.float32)
    _, _, scores = aggregate(KEYS, p, method="symmetric-log-sum")
    log = math.log
    first = log(0.75) + log(0.5) + log(1 - 0.125) + log(1 - 0.625)
    second = log(0.125) + log(0.25) + log(1 - 0.75) + log(1 - 0.5)
    third = log(0.625) + log(0.5) + log(1 - 0.5) + log(1 - 0.25)
    np.testing.assert_allclose(scores, [first, second, third], rtol=1e-6)


@pytest.mark.parametrize("method", RULES)
def test_the_order_of_the_pairs_does_not_show(method):
    rng = np.random.default_rng(0)
    query_rows = np.repeat(np.arange(3, dtype=np.int32), 6)
    rows = rng.permutation(40)[:18].astype(np.int64)
    rank = np.tile(np.arange(1, 7, dtype=np.int32), 3)
    keys = pairs(query_rows, rows, rank, k1=6)
    p = rng.random(len(keys[0])).astype(np.float32)
    whole = aggregate(keys, p, method=method)
    for query in range(3):
        own = keys[0] == query
        alone = aggregate((keys[0][own], keys[1][own], keys[2][own]), p[own], method=method)
        at = whole[0] == query
        assert alone[2].tobytes() == whole[2][at].tobytes()


def test_the_logarithm_of_a_probability_of_0_is_that_of_the_smallest_float32():
    keys = (np.zeros(2, np.int64), np.array([4, 7]), np.array([7, 4]))
    p = np.array([0.0, 1.0], np.float32)
    _, _, scores = aggregate(keys, p, method="symmetric-log-sum")
    # log p(4,7) + log(1 - p(7,4)), and log p(7,4) + log(1 - p(4,7)).
    np.testing.assert_allclose(scores, [2 * math.log(SMALLEST), 0.0], rtol=1e-6)


@pytest.mark.parametrize(("method", "expected"), [("sum", 0.25), ("symmetric-sum", 0.25)])
def test_a_passage_that_was_only_compared_against_gets_no_score(method, expected):
    keys = (np.zeros(1, np.int64), np.array([4]), np.array([7]))
    queries, rows, scores = aggregate(keys, np.array([0.25], np.float32), method=method)
    assert (queries.tolist(), rows.tolist(), scores.tolist()) == ([0], [4], [expected])


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
