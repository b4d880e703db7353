from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from raypipe.engines.exact import _rounded_down
from raypipe.engines.exact_scores import exact_scores, may_round_elsewhere, widen

ALL_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = ALL_HALVES[np.isfinite(ALL_HALVES)]


def nearest_float32(number: Fraction) -> np.float32:
    """By definition: the closest of three neighbours, ties to the even bit pattern."""
    guess = np.float32(float(number))
    near = [
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    ]
    return min(
        near, key=lambda one: (abs(Fraction(float(one)) - number), int(one.view(np.uint32)) & 1)
    )


def by_fractions(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    products = [
        sum(Fraction(float(q)) * Fraction(float(e)) for q, e in zip(query, vector, strict=True))
        for vector in vectors
    ]
    return np.array([nearest_float32(product) for product in products], np.float32)


def score(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    norm = float(np.linalg.norm(vectors.astype(np.float64), axis=1).max()) * 1.0001
    of_halves = exact_scores(query.astype(np.float64), vectors, norm)
    of_floats = exact_scores(query.astype(np.float64), vectors.astype(np.float32), norm)
    assert np.array_equal(of_halves.view(np.uint32), of_floats.view(np.uint32))
    return of_floats


@pytest.mark.parametrize("flushed", [False, True], ids=["", "a library rounds subnormals to 0"])
def test_widen_gives_every_finite_fp16_value_and_marks_the_others(flushed):
    out = np.empty((4, 1 << 14), np.float32)
    torch.set_flush_denormal(flushed)
    try:
        widen(ALL_HALVES.reshape(4, -1), out)
    finally:
        torch.set_flush_denormal(False)
    flat, finite = out.ravel(), np.isfinite(ALL_HALVES)
    assert np.array_equal(flat[finite].view(np.uint32), FINITE.astype(np.float32).view(np.uint32))
    assert (np.abs(flat[~finite]) >= 65536).all()


def test_widen_takes_strided_and_empty_input():
    halves = np.arange(24, dtype=np.float16).reshape(4, 6)
    for view in (halves[:, ::2], halves[::2], halves.T, halves[:0]):
        out = np.empty(view.shape, np.float32)
        widen(view, out)
        assert np.array_equal(out, view)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 9), st.integers(1, 4))
def test_scores_of_any_fp16_bits_are_correctly_rounded(data, dim, num):
    halves = st.integers(0, len(FINITE) - 1)
    query = FINITE[data.draw(hnp.arrays(np.int64, dim, elements=halves))]
    vectors = FINITE[data.draw(hnp.arrays(np.int64, (num, dim), elements=halves))]
    assert np.array_equal(score(query, vectors), by_fractions(query, vectors))


@pytest.mark.parametrize("tail", [2.0**-24, -(2.0**-24), 0.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beside_the_middle_of_two_float32_rounds_by_its_last_bit(tail, sign):
    # 2^30 and 2^30 + 2^7 are neighbours in float32; the sum is their middle, 2^30 + 2^6, plus
    # tail 2^-24 = 2^-48 or nothing, which float64 loses.
    query = np.array([2.0**15, 2.0**3, 2.0**-24], np.float16)
    vectors = sign * np.array([[2.0**15, 2.0**3, tail]]).astype(np.float16)
    expected = 2.0**30 + (2.0**7 if tail > 0 else 0.0)  # the middle itself goes to the even one
    assert score(query, vectors).tolist() == [sign * expected]


@settings(max_examples=300, deadline=None)
@given(st.integers(-20, 20), st.integers(-(2**30), 2**30), st.integers(20, 30), st.booleans())
def test_no_sum_that_may_round_elsewhere_is_overlooked(exponent, places, size, negative):
    # Sums within two float32 steps of a power of two, where the steps change size.
    one = (2.0**exponent + places * 2.0 ** (exponent - 52)) * (-1 if negative else 1)
    error = 2.0 ** (exponent - 52 + size)
    sums = np.array([one])
    if np.float32(one - error) != np.float32(one) or np.float32(one + error) != np.float32(one):
        assert may_round_elsewhere(sums, error)[0]
    assert not may_round_elsewhere(np.array([1.0 + 2.0**-30]), 2.0**-40)[0]


def test_cancellation_leaves_the_exact_remainder_and_one_kind_of_zero():
    query = np.array([60000, 60000, 1, 2.0**-24], np.float16)
    vectors = np.array(
        [[60000, -60000, 0, 2.0**-24], [60000, -60000, 0, 0], [-0.0, -0.0, -0.0, -0.0]], np.float16
    )
    scores = score(query, vectors)
    assert scores.tolist() == [2.0**-48, 0.0, 0.0]
    assert not np.signbit(scores).any()


def test_scores_do_not_depend_on_the_order_of_the_columns():
    rng = np.random.default_rng(3)
    spread = 2.0 ** rng.integers(-24, 15, size=(300, 48))
    vectors = (spread * rng.choice([-1.0, 1.0], size=spread.shape)).astype(np.float16)
    query = (2.0 ** rng.integers(-24, 15, size=48)).astype(np.float16)
    expected = score(query, vectors)
    for _ in range(5):
        order = rng.permutation(48)
        assert np.array_equal(score(query[order], vectors[:, order]), expected)
    assert np.array_equal(expected[:40], by_fractions(query, vectors[:40]))


def test_columns_beyond_4096_are_summed_in_pieces():
    rng = np.random.default_rng(4)
    vectors = (rng.standard_normal((3, 9000)) * 1000).astype(np.float16)
    query = np.concatenate([vectors[0, ::-1], []]).astype(np.float16)
    assert np.array_equal(score(query, vectors), by_fractions(query, vectors))


def test_normalised_vectors_equal_plain_float64():
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((5000, 96))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    plain = (vectors.astype("f8") @ vectors[0].astype("f8")).astype("f4")
    assert np.array_equal(score(vectors[0], vectors), plain)


@pytest.mark.parametrize("value", [0.1, 1.0, -0.1, 1 + 2.0**-30, -1 - 2.0**-30, 0.0, 1e-45])
def test_a_float32_floor_is_below_its_value_and_no_further_than_two_steps(value):
    (found,) = _rounded_down(np.array([value], np.float64))
    assert np.float64(found) < value
    assert value <= np.nextafter(np.nextafter(found, np.float32(np.inf)), np.float32(np.inf))
