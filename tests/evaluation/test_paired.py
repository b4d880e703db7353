"""Paired tests against scipy, by hand and against every pattern of signs."""

import itertools
from math import comb

import numpy as np
import pytest
from ranked_tables import RNG
from scipy import stats

from raypipe.evaluation.significance import holm, randomisation_tests, t_test


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


def test_holm_does_not_fall_stops_at_1_and_keeps_the_order_given():
    assert holm([0.25, 0.0625, 0.125]) == [0.25, 0.1875, 0.25]
    # Sorted .01 .02 .03 .5 times 4 3 2 1: .04 .06 .06 .5, made not to fall.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.5, 0.75]) == [1.0, 1.0] and holm([0.5]) == [0.5] and holm([]) == []


def test_exact_tests_by_hand():
    # Of 8 patterns of 1, 2, 4 the sums of magnitude 7 are two; of magnitude 5 or more, four.
    assert randomisation_tests([np.array([1.0, 2.0, 4.0])]) == [0.25]
    assert randomisation_tests([np.array([-1.0, 0.0, 2.0, 4.0])]) == [0.5]
    assert randomisation_tests([np.zeros(4), np.array([3.0])]) == [1.0, 1.0]
    assert randomisation_tests([]) == []


def test_t_tests_that_need_no_table():
    assert t_test(np.array([0.5])) == 1.0 and t_test(np.zeros(5)) == 1.0
    assert t_test(np.array([0.25, 0.25])) == 0.0
    # t = 1 with one degree of freedom: p = 1/2 exactly (the Cauchy distribution).
    assert t_test(np.array([0.0, 1.0])) == pytest.approx(0.5)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_the_exact_randomisation_test_is_scipys(count):
    deltas = np.round(RNG.normal(0.1, 1, count), 3)
    expected = stats.permutation_test(
        (deltas, np.zeros(count)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    ).pvalue
    assert randomisation_tests([deltas]) == [pytest.approx(expected)]


def test_the_drawn_randomisation_test_is_near_the_exact_one_and_seeded():
    deltas = np.concatenate([RNG.normal(0.3, 1, 40), np.zeros(10)])
    others = RNG.normal(0, 1, 50)
    first = randomisation_tests([deltas, others], seed=1)
    assert first == randomisation_tests([deltas, others], seed=1)
    # The sum of 40 signed differences is nearly normal.
    normal = 2 * stats.norm.sf(abs(deltas.sum()) / np.sqrt((deltas**2).sum()))
    assert first[0] == pytest.approx(normal, abs=0.02)


def test_the_t_test_is_scipys():
    values, base = RNG.random(30), RNG.random(30)
    assert t_test(values - base) == pytest.approx(stats.ttest_rel(values, base).pvalue)
