import numpy as np
import pytest

from raypipe.evaluation.significance import change, difference, differences, randomisation_tests


def test_the_difference_is_the_first_minus_the_second():
    found = difference({"1": 0.75, "2": 1.0}, {"1": 0.5, "2": 0.5})
    assert (found.mean, found.low, found.high) == (0.375, 0.25, 0.5)


def test_the_interval_holds_the_middle_95_percent_of_resampled_means():
    # The mean of 100 resampled values 0 or 1 is binomial: 50 +- 1.96 * 5 of a hundred.
    values = {str(n): float(n % 2) for n in range(100)}
    found = difference(values, dict.fromkeys(values, 0.0))
    assert found.low == pytest.approx(0.40, abs=0.011)
    assert found.high == pytest.approx(0.60, abs=0.011)


def test_two_seeds_give_two_intervals_and_two_p_values():
    rng = np.random.default_rng(4)
    queries = [str(number) for number in range(40)]
    values = dict(zip(queries, rng.random(40), strict=True))
    base = dict.fromkeys(queries, 0.45)
    one, other = (difference(values, base, seed=seed) for seed in (1, 2))
    assert (one.low, one.high) != (other.low, other.high) and one.mean == other.mean
    deltas = np.array([values[query] - 0.45 for query in queries])
    assert randomisation_tests([deltas], seed=1) != randomisation_tests([deltas], seed=2)


def test_the_interval_of_a_difference_agrees_with_scipys_bootstrap():
    from scipy.stats import bootstrap

    rng = np.random.default_rng(0)
    a, b = rng.random(80), rng.random(80)
    found = difference({str(i): v for i, v in enumerate(a)}, {str(i): v for i, v in enumerate(b)})
    expected = bootstrap((a - b,), np.mean, method="percentile", random_state=1).confidence_interval
    assert found.mean == pytest.approx((a - b).mean())
    assert found.low == pytest.approx(expected.low, abs=0.005)
    assert found.high == pytest.approx(expected.high, abs=0.005)


def test_differences_together_are_those_of_each_pair_to_the_last_bit():
    rng = np.random.default_rng(3)
    of_query = [{str(n): float(v) for n, v in enumerate(rng.random(50))} for _ in range(4)]
    pairs = [(of_query[0], of_query[1]), (of_query[2], of_query[1]), (of_query[3], of_query[3])]
    assert differences(pairs, seed=5) == [difference(*pair, seed=5) for pair in pairs]
    assert differences([]) == []


def test_a_change_over_the_same_queries_is_the_difference():
    rng = np.random.default_rng(7)
    now, before = ({str(n): v for n, v in enumerate(rng.random(60))} for _ in range(2))
    found, expected = change(now, before), difference(now, before)
    assert found.signs == expected.signs
    assert found.mean == pytest.approx(expected.mean)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_change_over_other_queries_is_that_of_the_means_of_each():
    found = change({"1": 0.5, "2": 1.0, "3": 0.9}, {"2": 0.25, "3": 0.9, "4": 0.05})
    assert found.mean == pytest.approx(0.8 - 0.4)
    assert found.signs == "1/1/0"  # queries 2 and 3
    apart = change({"1": 1.0}, {"2": 0.25})  # every resample that has both
    assert (apart.mean, apart.low, apart.high, apart.signs) == (0.75, 0.75, 0.75, "0/0/0")


def test_the_interval_over_other_queries_is_that_of_two_samples():
    # Each mean of 100 values 0 or 1 has a standard error of 0.05, their difference of 0.071.
    now = {str(n): float(n % 2) for n in range(100)}
    found = change(now, {f"b{n}": float(n % 2) for n in range(100)})
    assert (found.low, found.high) == pytest.approx((-0.139, 0.139), abs=0.012)
