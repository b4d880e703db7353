import numpy as np
import pytest
from ranked_tables import RNG
from scipy import stats

from raypipe.evaluation.paired import holm, randomisation_tests, t_test


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


def test_the_t_test_is_scipys_and_no_difference_is_1():
    values, base = RNG.random(30), RNG.random(30)
    assert t_test(values - base) == pytest.approx(stats.ttest_rel(values, base).pvalue)
    assert t_test(np.zeros(9)) == 1.0 and t_test(np.array([0.5])) == 1.0
    assert randomisation_tests([np.zeros(9)]) == [1.0]


def test_holms_correction_by_hand():
    # Sorted .01 .02 .03 .5 times 4 3 2 1: .04 .06 .06 .5, made not to fall.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
