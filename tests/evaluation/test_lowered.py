"""Scores that fall strictly in float32."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from raypipe.errors import InputError
from raypipe.evaluation.exports import lowered

FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


def f32(*values):
    return np.array(values, dtype=np.float32)


def lowered_line_by_line(scores):
    """Decision 7 as it is written: below the line above, else the next float32 below it."""
    out = scores.copy()
    for i in range(1, len(out)):
        if not out[i] < out[i - 1]:
            out[i] = np.nextafter(out[i - 1], np.float32(-np.inf))
    return out


def test_lowered_changes_only_lines_not_below_the_line_above():
    below = np.nextafter(np.float32(2), np.float32(-np.inf))
    assert lowered(f32(5, 2, 2, 1)).tolist() == [5, 2, float(below), 1]


def test_lowered_carries_a_chain_of_ties_past_the_next_score():
    one = np.float32(1)
    step = np.nextafter(one, np.float32(-np.inf))
    chain = lowered(f32(1, 1, step, 0.5))
    assert chain[1] == step
    assert chain[2] == np.nextafter(step, np.float32(-np.inf))
    assert chain[3] == np.float32(0.5)


def test_lowered_pushes_a_higher_scored_tail_below_its_head():
    out = lowered(f32(0.9, 0.1, 14.0, 13.0))
    assert out[:2].tolist() == f32(0.9, 0.1).tolist()
    assert (np.diff(out) < 0).all()
    assert out[3] > 0.0999999


def test_lowered_crosses_zero_into_the_smallest_negative():
    out = lowered(f32(0.0, -0.0, 0.0))
    assert out.tolist() == [0.0, float(np.float32(-1e-45)), float(np.float32(-3e-45))]


def test_lowered_starts_afresh_at_each_query():
    scores = f32(1, 1, 7, 7, 7, -3)
    groups = np.array([5, 5, 2, 2, 2, 9])
    parts = [lowered(scores[:2]), lowered(scores[2:5]), lowered(scores[5:])]
    assert lowered(scores, groups).tolist() == np.concatenate(parts).tolist()


def test_lowered_refuses_when_no_float_is_left_below():
    smallest = np.finfo(np.float32).min
    assert lowered(f32(smallest)).tolist() == [float(smallest)]
    with pytest.raises(InputError, match="no float32 is left"):
        lowered(f32(smallest, smallest))
    with pytest.raises(InputError, match="NaN or infinite"):
        lowered(f32(1, np.nan))


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


def test_the_smallest_float32_stands_once_and_no_more():
    smallest = np.finfo(np.float32).min
    assert lowered(np.array([smallest], np.float32)).tolist() == [smallest]
    with pytest.raises(InputError, match="no float32 is left"):
        lowered(np.array([smallest, smallest], np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="NaN or infinite"):
            lowered(np.array([1, bad], np.float32))
