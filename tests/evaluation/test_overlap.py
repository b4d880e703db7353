"""Overlaps by hand, and rank-biased overlap against its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.evaluation.overlap import overlap, rank_biased_overlap


@pytest.mark.parametrize(
    ("one", "other", "cutoff", "expected"),
    [
        ("abcd", "bacd", 2, 1.0),
        ("abcd", "aefg", 4, 0.25),
        ("ab", "abcd", 4, 0.5),
        ("", "ab", 2, 0.0),
        ("", "", 2, 1.0),
    ],
)
def test_the_overlap_is_the_share_of_the_longer_top(one, other, cutoff, expected):
    assert overlap(one, other, cutoff=cutoff) == overlap(other, one, cutoff=cutoff) == expected


def test_rank_biased_overlap_of_two_places_by_hand():
    # X = 0, 2: (1-p)/p (0 p + 2/2 p^2) + 2/2 p^2 = (1-p) p + p^2 = p.
    assert rank_biased_overlap("ab", "ba", p=0.9) == pytest.approx(0.9)
    # X = 1, 1: (1-p)/p (p + p^2/2) + p^2/2 = 1 - p/2, here with p = 0.5.
    assert rank_biased_overlap("ab", "ac", p=0.5) == pytest.approx(0.75)


def test_rank_biased_overlap_of_uneven_lengths_by_hand():
    # s = 1, l = 2, X = 1, 1: (1-p)/p (p + p^2/2 + 1 (2-1)/(1*2) p^2) + ((1-1)/2 + 1) p^2 = 1.
    assert rank_biased_overlap("a", "ab", p=0.9) == pytest.approx(1.0)
    # X = 0, 1: (1-p)/p (0 + p^2/2) + (1/2 + 0) p^2 = p/2.
    assert rank_biased_overlap("b", "ab", p=0.8) == pytest.approx(0.4)


@pytest.mark.parametrize(("one", "other", "expected"), [("", "", 1), ("", "a", 0), ("ab", "cd", 0)])
def test_rankings_without_anything_in_common(one, other, expected):
    assert rank_biased_overlap(one, other, p=0.9) == expected


@given(st.permutations(list(range(8))), st.permutations(list(range(12))), st.floats(0.1, 0.95))
def test_rank_biased_overlap_is_equation_32(short, long, p):
    s, size = len(short), len(long)
    common = [len(set(short[:d]) & set(long[:d])) for d in range(1, size + 1)]
    total = sum(common[d - 1] / d * p**d for d in range(1, size + 1))
    total += sum(common[s - 1] * (d - s) / (s * d) * p**d for d in range(s + 1, size + 1))
    tail = (common[-1] - common[s - 1]) / size + common[s - 1] / s
    expected = (1 - p) / p * total + tail * p**size
    assert rank_biased_overlap(short, long, p=p) == pytest.approx(expected)
    assert rank_biased_overlap(long, short, p=p) == pytest.approx(expected)
    assert rank_biased_overlap(short, short, p=p) == pytest.approx(1)
