"""Scores that fall strictly in float32."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from raypipe.errors import InputError
from raypipe.evaluation.exports import lowered

FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


def lowered_line_by_line(scores):
    """Decision 7 as it is written: below the line above, else the next float32 below it."""
    out = scores.copy()
    for i in range(1, len(out)):
        if not out[i] < out[i - 1]:
            out[i] = np.nextafter(out[i - 1], np.float32(-np.inf))
    return out


@given(arrays(np.float32, st.integers(0, 60), elements=FINITE | st.sampled_from([0.0, 1.0, -1.0])))
def test_lowered_equals_the_rule_applied_line_by_line(scores):
    assert lowered(scores).tolist() == lowered_line_by_line(scores).tolist()


@given(
    st.lists(
        arrays(np.float32, st.integers(1, 9), elements=FINITE | st.sampled_from([0.0, 2.0])),
        min_size=1,
        max_size=9,
    )
)
def test_lowered_of_many_queries_is_strict_within_each(queries):
    groups = np.repeat(np.arange(len(queries)), [len(scores) for scores in queries])
    out = lowered(np.concatenate(queries), groups)
    assert out.tolist() == np.concatenate([lowered_line_by_line(q) for q in queries]).tolist()
    for group in range(len(queries)):
        assert (np.diff(out[groups == group]) < 0).all()


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
    tail = lowered(np.array([0.9, 0.1, 14, 13], np.float32))
    assert (np.diff(tail) < 0).all() and tail[3] > 0.0999999, "below its head, and by little"


def test_the_smallest_float32_stands_once_and_no_more():
    smallest = np.finfo(np.float32).min
    assert lowered(np.array([smallest], np.float32)).tolist() == [smallest]
    with pytest.raises(InputError, match="no float32 is left"):
        lowered(np.array([smallest, smallest], np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="NaN or infinite"):
            lowered(np.array([1, bad], np.float32))
