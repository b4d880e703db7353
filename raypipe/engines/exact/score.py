"""Inner products of fp16 vectors, correctly rounded to float32, in any order of summation.

An fp16 value is an integer times 2^-24, so a product is an integer times 2^-48, and the inner
product is a well-defined exact number. Its nearest float32 (ties to even) is the score, whatever
library, block or shard computed it. float64 nearly always gives it; the few sums too near the
middle between two float32 values are computed again in integers.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

CACHED_VALUES = 1 << 16
"""Number of values cast to float64 at a time: 512 KiB, which stays in the cache of one core."""
EXACT_FLOAT64 = 2.0**53 * 2.0**-48
"""If |query| |passage| is at most this (32), every partial sum is a multiple of 2^-48 and less than
2^53 of them, so float64 is exact in any order. This covers all normalised embeddings."""

_LOW_BITS = (1 << 29) - 1  # bits of a float64 mantissa that float32 drops
_MIDDLE = 1 << 28
_SPLIT_BITS = 20
_SPLIT_COLUMNS = 4096  # 4096 products below 2^41 stay below 2^53: exact in float64
Widen = Callable[[NDArray[np.float16], NDArray[np.float32]], None]
"""Writes fp16 [n, D] as float32; what is not finite becomes a NaN, or 65536 or more."""


def widen(halves: NDArray[np.float16], out: NDArray[np.float32]) -> None:
    """Write fp16 [n, D] as float32 into contiguous `out` [n, D], about 5x as fast as `astype`.

    Infinities and NaN become 65536 or more in magnitude, which no finite fp16 does, so the caller
    recognises them by size. The bits are moved into place, and the exponent is corrected by a
    product with 2^112, which is exact, also for subnormal values.
    """
    if not _subnormals_kept():
        np.copyto(out, halves)
        out[~np.isfinite(out)] = np.float32(2.0**16)
        return
    step = max(1, (1 << 16) // max(out.shape[1], 1))  # a piece that fits the cache
    for start in range(0, len(out), step):
        piece = out[start : start + step]
        bits = np.ascontiguousarray(halves[start : start + step]).view(np.int16)
        np.copyto(piece.view(np.int32), bits)
        moved = piece.view(np.uint32)
        moved <<= np.uint32(13)
        moved &= np.uint32(0x8FFFFFFF)
        piece *= np.float32(2.0**112)


class Scratch:
    """Memory for one piece of the vectors at a time, cast twice; one thread uses it at a time."""

    def __init__(self, dim: int, num: int) -> None:
        self.rows = max(1, min(num, CACHED_VALUES // dim))
        """Vectors of a piece."""
        self._floats = np.empty((self.rows, dim), np.float32)
        self._doubles = np.empty((self.rows, dim), np.float64)

    def sums(
        self,
        query: NDArray[np.float64],
        vectors: NDArray[np.float16] | NDArray[np.float32],
        widen_into: Widen,
        out: NDArray[np.float64],
    ) -> None:
        """Write the inner products of the query and at most `rows` vectors in float64."""
        floats, doubles = self._floats[: len(vectors)], self._doubles[: len(vectors)]
        if vectors.dtype == np.float16:
            widen_into(vectors, floats)  # type: ignore[arg-type]
            np.copyto(doubles, floats)
        else:
            np.copyto(doubles, vectors)
        np.vecdot(doubles, query, out=out)


def exact_scores(
    query: NDArray[np.float64],
    vectors: NDArray[np.float16] | NDArray[np.float32],
    norm: float,
    widen_into: Widen = widen,
) -> NDArray[np.float32]:
    """The correctly rounded inner product of one query and each of n passages, float32 [n].

    Args:
        query: [D], each value representable in fp16.
        vectors: [n, D], fp16 or values representable in it, finite.
        norm: not below the length of any of these passages.
        widen_into: casts fp16.
    """
    num, dim = vectors.shape
    sums, scratch = np.empty(num, np.float64), Scratch(dim, num)
    for start in range(0, num, scratch.rows):
        some = slice(start, start + scratch.rows)
        scratch.sums(query, vectors[some], widen_into, sums[some])
    return rounded(sums, query, norm, lambda places: vectors[places])


def rounded(
    sums: NDArray[np.float64],
    query: NDArray[np.float64],
    norm: float,
    vectors: Callable[[NDArray[np.intp]], NDArray[np.float16] | NDArray[np.float32]],
) -> NDArray[np.float32]:
    """The float32 nearest to each exact inner product, of which `sums` [n] are those in float64.

    Args:
        sums: in any order of summation.
        query: [D], each value representable in fp16.
        norm: not below the length of any of the passages.
        vectors: gives the passages at these places, for the few sums near the middle.
    """
    scores = sums.astype(np.float32)
    doubtful = np.flatnonzero(may_round_elsewhere(sums, _sum_error(query, len(query), norm)))
    if len(doubtful):
        scores[doubtful] = _integer_scores(query, vectors(doubtful).astype(np.float64))
    return scores + np.float32(0.0)  # one zero, +0


def may_round_elsewhere(sums: NDArray[np.float64], error: float) -> NDArray[np.bool_]:
    """Whether a number within `error` of a sum rounds to another float32 than the sum, bool [n]."""
    if error == 0.0:
        return np.zeros(len(sums), np.bool_)
    last_place = np.spacing(np.abs(sums))
    low = sums.view(np.int64) & _LOW_BITS
    # Below a power of two, float32 values are twice as dense, hence the second test.
    close: NDArray[np.bool_] = np.abs(low - _MIDDLE) * last_place <= error
    return close | (error >= (_MIDDLE >> 1) * last_place)


def _sum_error(query: NDArray[np.float64], dim: int, norm: float) -> float:
    """Largest error of a float64 inner product of exact products, summed in any order.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 4.4:
    (D - 1) u / (1 - (D - 1) u) times the sum of magnitudes, here bounded by the norms.
    """
    inflated = 1 + (dim + 8) * 2.0**-52  # because the query's norm is rounded
    magnitude = norm * math.sqrt(float(query @ query)) * inflated
    return 0.0 if magnitude <= EXACT_FLOAT64 else 1.01 * dim * 2.0**-53 * magnitude


def _integer_scores(
    query: NDArray[np.float64], vectors: NDArray[np.float64]
) -> NDArray[np.float32]:
    """The same inner products in integers of 2^-48, split so that every float64 sum is exact."""
    query_high, query_low = _split(query)
    high, low = _split(vectors)
    totals = [0] * len(vectors)
    for start in range(0, len(query), _SPLIT_COLUMNS):
        cut = slice(start, start + _SPLIT_COLUMNS)
        tops = high[:, cut] @ query_high[cut]
        middles = high[:, cut] @ query_low[cut] + low[:, cut] @ query_high[cut]
        bottoms = low[:, cut] @ query_low[cut]
        for row, (top, middle, bottom) in enumerate(zip(tops, middles, bottoms, strict=True)):
            part = (int(top) << 2 * _SPLIT_BITS) + (int(middle) << _SPLIT_BITS) + int(bottom)
            totals[row] += part
    return np.array([_nearest(total) for total in totals], np.float32)


def _split(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Integers high (20 bits and sign) and low (20 bits): value = (high 2^20 + low) 2^-24."""
    integers = (values * 2.0**24).astype(np.int64)
    low = integers & ((1 << _SPLIT_BITS) - 1)
    return (integers >> _SPLIT_BITS).astype(np.float64), low.astype(np.float64)


def _nearest(total: int) -> np.float32:
    """The float32 nearest to total 2^-48, ties to even.

    The 50 leading bits with a sticky last one fit a float64 and round like the whole number.
    """
    size = abs(total)
    shift = max(0, size.bit_length() - 50)
    leading = size >> shift
    if leading << shift != size:
        leading |= 1
    return np.float32(math.copysign(math.ldexp(leading, shift - 48), total))


def _subnormals_kept() -> bool:
    """Whether this thread computes with subnormal float32 (a library may have switched it off)."""
    smallest = np.full(1, 2.0**-149, np.float64).astype(np.float32)
    return bool((smallest * np.float32(2.0**112))[0] == np.float32(2.0**-37))
