"""Inner products of fp16 vectors, correctly rounded to float32, in any order of summation.

An fp16 value is an integer times 2^-24, so a product is an integer times 2^-48, and the inner
product is a well-defined exact number. Its nearest float32 (ties to even) is the score, whatever
library, block or shard computed it. float64 nearly always gives it; the few sums too near the
middle between two float32 values are computed again in integers.

Shards of embeddings are read as float32 blocks of bounded size, or row by row; their float32
products come from numpy or another library.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError

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


Floats = NDArray[np.float32]
Multiply = Callable[[Floats, Floats], float]
"""Writes the inner products of the queries and vectors [n, D] into [Q, n]; by one thread.

It returns how far the vectors were moved by rounding them: the length of the largest difference.
"""


class Products(Protocol):
    """A library of matrix products. Scores are exact, so which one it is changes no result."""

    @property
    def threads(self) -> int:
        """The number of blocks in work at a time, each on a thread of its own."""

    @property
    def rounding(self) -> float:
        """The share of itself by which a finished product may be rounded, in keeping with order."""

    def ready(self) -> AbstractContextManager[None]:
        """A context in which the others may be called, by any thread."""

    def widen(self, halves: NDArray[np.float16], out: Floats) -> None:
        """Write fp16 [n, D] as float32 into contiguous `out` [n, D].

        Infinities and NaN become a NaN, or 65536 or more in magnitude.
        """

    def multiply(self, queries: Floats) -> Multiply:
        """The multiplication with these queries [Q, D], fp16 values, summed in float32."""

    def error(
        self, queries: Floats, norms: NDArray[np.float64], *, longest: float, moved: float
    ) -> NDArray[np.float64]:
        """[Q]: by how much products may be off before `rounding`.

        Args:
            queries: [Q, D].
            norms: [Q], not below the queries' lengths.
            longest: not below the length of any vector.
            moved: the largest number that their multiplication returned.
        """


class NumpyProducts:
    """numpy's products; its library decides about threads, so blocks are taken one by one."""

    threads = 1
    rounding = 0.0

    def ready(self) -> AbstractContextManager[None]:
        """A context that does nothing: there is nothing to prepare."""
        return nullcontext()

    def widen(self, halves: NDArray[np.float16], out: Floats) -> None:
        """Write fp16 [n, D] as float32 into `out`, by the function `widen`."""
        widen(halves, out)

    def multiply(self, queries: Floats) -> Multiply:
        """The multiplication by `np.matmul`, which moves no vector."""

        def multiplied(vectors: Floats, out: Floats) -> float:
            np.matmul(queries, vectors.T, out=out)
            return 0.0

        return multiplied

    def error(
        self, queries: Floats, norms: NDArray[np.float64], *, longest: float, moved: float
    ) -> NDArray[np.float64]:
        """The bound of a float32 product's error, [Q]: `product_error` times both lengths."""
        return product_error(queries.shape[1]) * longest * norms


def product_error(dim: int) -> float:
    """The bound e: a float32 inner product of fp16 vectors is off by at most e |query| |passage|.

    A product of two fp16 values has 22 bits and lies in [2^-48, 2^32]: it is exact in float32.
    The dim - 1 sums, in any order, fused or not, are off by at most (dim - 1) u / (1 - (dim - 1)
    u), u = 2^-24, times the sum of magnitudes, which is at most |query| |passage|. Five more u
    cover the rounding of the final score and of this bound.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
    """
    units = (dim + 4) * 2.0**-24
    return units / (1 - units)


NAMED_ROWS = 10
FP16_BEYOND = 65536.0
"""The least magnitude that `widen` writes for an infinity or a NaN, if not a NaN."""


@dataclass(frozen=True, slots=True)
class ShardVectors:
    """One shard of stored embeddings."""

    first_row: int
    """Row of the collection of the array's row 0."""
    vectors: NDArray[np.float16]
    """[n, D], possibly memory-mapped."""

    @property
    def stop_row(self) -> int:
        """One past the last row."""
        return self.first_row + len(self.vectors)


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of one or more shards, cast to float32; the next block overwrites them."""

    rows: NDArray[np.int64]
    """[n], ascending rows of the collection."""
    vectors: NDArray[np.float32]
    """[n, D], the stored values."""
    norms: NDArray[np.float64]
    """[n], not below the true norms."""


def checked_shards(
    blocks: Iterable[tuple[int, NDArray[np.float16]]], dim: int
) -> tuple[ShardVectors, ...]:
    """The shards by first row, without empty ones; reads no data.

    Raises:
        InputError: a shard that is not fp16 [n, dim], or shards that share a row.
    """
    problems, shards = [], []
    for first_row, vectors in blocks:
        if vectors.ndim != 2 or vectors.dtype != np.float16 or vectors.shape[1] != dim:
            problems.append(
                f"embeddings from row {first_row}: found {vectors.dtype} {list(vectors.shape)}, "
                f"expected float16 [rows, {dim}] as the queries have; encode both with one model"
            )
        elif first_row < 0:
            problems.append(f"embeddings from row {first_row}: expected a row of at least 0")
        elif len(vectors):
            shards.append(ShardVectors(int(first_row), np.asarray(vectors)))
    shards.sort(key=lambda shard: shard.first_row)
    for one, other in zip(shards, shards[1:], strict=False):
        if one.stop_row > other.first_row:
            problems.append(
                f"embeddings: shards [{one.first_row}, {one.stop_row}) and "
                f"[{other.first_row}, {other.stop_row}) share rows, expected each row once"
            )
    if problems:
        raise InputError(problems)
    return tuple(shards)


def cut(shards: Sequence[ShardVectors], num_rows: int) -> Iterator[tuple[ShardVectors, ...]]:
    """The rows of all shards in ascending order, in pieces of `num_rows`; the last may have fewer.

    A piece that goes over the end of a shard has a part of each; no data is read or copied.
    """
    parts: list[ShardVectors] = []
    missing = num_rows
    for shard in shards:
        start = 0
        while start < len(shard.vectors):
            taken = shard.vectors[start : start + missing]
            parts.append(ShardVectors(shard.first_row + start, taken))
            start, missing = start + len(taken), missing - len(taken)
            if missing == 0:
                yield tuple(parts)
                parts, missing = [], num_rows
    if parts:
        yield tuple(parts)


def cast(
    parts: Sequence[ShardVectors], buffer: NDArray[np.float32], widen_into: Widen = widen
) -> Block:
    """The parts of one piece as a block, written over the first rows of `buffer` [n, D].

    Raises:
        InputError: a row holds a NaN or an infinity; the message names the rows.
    """
    stop = 0
    for part in parts:
        start, stop = stop, stop + len(part.vectors)
        widen_into(part.vectors, buffer[start:stop])
    rows = np.concatenate([np.arange(part.first_row, part.stop_row) for part in parts])
    norms = upper_norms(buffer[:stop])
    refuse_nonfinite("embedding", rows, buffer[:stop], norms)
    return Block(rows, buffer[:stop], norms)


def float32_blocks(shards: Sequence[ShardVectors], buffer: NDArray[np.float32]) -> Iterator[Block]:
    """The rows of all shards in ascending order, in blocks of as many as `buffer` [n, D] holds.

    Args:
        shards: as `checked_shards` returns them.
        buffer: overwritten by every block.

    Raises:
        InputError: a row holds a NaN or an infinity; the message names the rows.
    """
    return (cast(parts, buffer) for parts in cut(shards, len(buffer)))


def gather(
    shards: Sequence[ShardVectors],
    rows: NDArray[np.int64],
    out: NDArray[np.float16] | None = None,
) -> NDArray[np.float16]:
    """The stored vectors [n, D] of ascending rows; every row must be in some shard.

    `out` [n, D] is written and returned; memory that is used again is much faster than new memory.
    """
    firsts = np.array([shard.first_row for shard in shards], np.int64)
    owners = np.searchsorted(firsts, rows, side="right") - 1
    bounds = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(rows)]
    if out is None:
        out = np.empty((len(rows), shards[0].vectors.shape[1]), np.float16)
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        shard = shards[owners[start]]
        assert stop == start or rows[stop - 1] < shard.stop_row, "a row that no shard holds"
        # Without a mode, numpy would copy through memory of its own.
        places = rows[start:stop] - shard.first_row
        np.take(shard.vectors, places, axis=0, out=out[start:stop], mode="clip")
    return out


def upper_norms(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Euclidean norms float64 [n], rounded up: never below the true ones."""
    return upper_roots(np.vecdot(vectors, vectors), vectors.shape[1])


def upper_roots(squares: Floats, dim: int) -> NDArray[np.float64]:
    """Square roots, rounded up, of float32 sums of `dim` squares in any order, [n]."""
    inflated = 1 + (dim + 8) * 2.0**-23
    norms: NDArray[np.float64] = np.sqrt(squares.astype(np.float64)) * inflated
    return norms


def refuse_nonfinite(
    what: str, rows: NDArray[np.int64], vectors: NDArray[np.float32], norms: NDArray[np.float64]
) -> None:
    """Raise InputError naming the rows in which `widen` left a NaN or an infinity marked."""
    suspects = np.flatnonzero(~(norms < FP16_BEYOND))  # no other row can hold such a value
    bad = suspects[~(np.abs(vectors[suspects]) < FP16_BEYOND).all(axis=1)]
    if len(bad):
        named = ", ".join(str(row) for row in rows[bad[:NAMED_ROWS]].tolist())
        more = f" and {len(bad) - NAMED_ROWS} more" if len(bad) > NAMED_ROWS else ""
        raise InputError(
            f"{what} row {named}{more}: found NaN or infinity, expected finite fp16 values; "
            "such a row has no score: encode it again, or quarantine it so that it is skipped"
        )
