"""Aggregation where a probability is 0, and where a passage was only compared against."""

import math

import numpy as np
import pytest

from raypipe.ranking.aggregate import SMALLEST, aggregate


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
