"""Bounds by which candidates are left out are on the safe side."""

import numpy as np
import pytest

from raypipe.engines.exact import _rounded_down


@pytest.mark.parametrize("value", [0.1, 1.0, -0.1, 1 + 2.0**-30, -1 - 2.0**-30, 0.0, 1e-45])
def test_a_float32_floor_is_below_its_value_and_no_further_than_two_steps(value):
    (found,) = _rounded_down(np.array([value], np.float64))
    assert np.float64(found) < value
    assert value <= np.nextafter(np.nextafter(found, np.float32(np.inf)), np.float32(np.inf))
