import numpy as np
import pytest

from raypipe.evaluation.paired import holm, randomisation_tests, t_test


def test_holm_does_not_fall_stops_at_1_and_keeps_the_order_given():
    assert holm([0.25, 0.0625, 0.125]) == [0.25, 0.1875, 0.25]
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
