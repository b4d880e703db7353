"""A comparison's direction, seed and p values, on data that is not symmetric."""

import itertools
from math import comb

import numpy as np
import pytest

from raypipe.evaluation.paired import randomisation_tests


def test_60_equal_differences_have_the_smallest_p_there_is():
    # Only the observed pattern and its mirror are as extreme, of 2^60: none is drawn.
    assert randomisation_tests([np.full(60, 0.25)]) == [1 / 100_001]


@pytest.mark.parametrize("count", [10, 16])
def test_up_to_16_differences_every_sign_pattern_is_counted(count):
    deltas = np.ones(count)
    deltas[:3] = -1.0
    plus = count - 3  # extreme: as many or more of one sign
    expected = 2 * sum(comb(count, k) for k in range(plus, count + 1)) / 2**count
    assert randomisation_tests([deltas]) == [pytest.approx(expected, rel=1e-12)]


@pytest.mark.parametrize("plus", [11, 12, 14, 16])
def test_the_drawn_test_is_within_its_own_error_of_the_binomial(plus):
    deltas = np.where(np.arange(20) < plus, 1.0, -1.0)
    expected = 2 * sum(comb(20, k) for k in range(plus, 21)) / 2**20
    (found,) = randomisation_tests([deltas])
    deviation = (expected * (1 - expected) / 100_000) ** 0.5
    assert abs(found - expected) < 4 * deviation


def test_the_drawn_test_is_within_its_own_error_of_all_patterns():
    rng = np.random.default_rng(8)
    deltas = [np.round(rng.normal(mean, 1, 18), 3) for mean in (0.1, 0.6)]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=18)))
    for found, each in zip(randomisation_tests(deltas), deltas, strict=True):
        expected = (np.abs(signs @ each) >= abs(each.sum()) * (1 - 1e-12)).mean()
        assert abs(found - expected) < 4 * (expected * (1 - expected) / 100_000) ** 0.5


def test_differences_of_0_leave_the_drawn_test_as_it_is():
    rng = np.random.default_rng(2)
    deltas = np.concatenate([rng.normal(0.4, 1, 16), np.zeros(30)])
    assert randomisation_tests([deltas]) == [
        pytest.approx(randomisation_tests([deltas[:16]])[0], rel=1e-12)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_sums_that_differ_by_rounding_alone_are_equally_extreme(seed):
    whole = np.random.default_rng(seed).integers(-9, 10, 12).astype(float)
    # Tenths have no exact sums, whole numbers have: the p values must be the same.
    assert randomisation_tests([whole / 10]) == randomisation_tests([whole])
