import numpy as np
import pytest

from raypipe.errors import InputError
from raypipe.evaluation.lowered import lowered


def test_scores_are_lowered_no_further_than_they_must_across_zero_and_queries():
    tiny = np.float32(2.0**-149)
    found = lowered(np.array([0, 0, -0.0, 1, 1], np.float32))
    below = np.nextafter(np.float32(-2 * tiny), np.float32(-1))
    assert found.tolist() == [0.0, -tiny, -2 * tiny, below, np.nextafter(below, np.float32(-1))]
    two = lowered(np.array([1, 1, 1, 1], np.float32), np.array([4, 4, 2, 2]))
    one_below = np.nextafter(np.float32(1), np.float32(0))
    assert two.tolist() == [1, one_below, 1, one_below]
    assert lowered(np.empty(0, np.float32)).tolist() == []
    same = np.array([3, 2, 1], np.float32)
    assert lowered(same).tobytes() == same.tobytes()


def test_the_smallest_float32_stands_once_and_no_more():
    smallest = np.finfo(np.float32).min
    assert lowered(np.array([smallest], np.float32)).tolist() == [smallest]
    with pytest.raises(InputError, match="no float32 is left"):
        lowered(np.array([smallest, smallest], np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="NaN or infinite"):
            lowered(np.array([1, bad], np.float32))
