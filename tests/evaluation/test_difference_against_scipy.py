import numpy as np
import pytest

from raypipe.evaluation.difference import difference


def test_the_interval_of_a_difference_agrees_with_scipys_bootstrap():
    from scipy.stats import bootstrap

    rng = np.random.default_rng(0)
    a, b = rng.random(80), rng.random(80)
    found = difference({str(i): v for i, v in enumerate(a)}, {str(i): v for i, v in enumerate(b)})
    expected = bootstrap((a - b,), np.mean, method="percentile", random_state=1).confidence_interval
    assert found.mean == pytest.approx((a - b).mean())
    assert found.low == pytest.approx(expected.low, abs=0.005)
    assert found.high == pytest.approx(expected.high, abs=0.005)
