"""Embedding shards as float32 blocks of bounded size, and rows gathered from them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.score import Widen, widen
from raypipe.errors import InputError

NAMED_ROWS = 10
FP16_BEYOND = 65536.0
"""For an infinity or a NaN, `widen` writes a NaN or a value of at least this magnitude."""


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
    squares = np.vecdot(vectors, vectors)  # the bound holds for sums in any order
    inflated = 1 + (vectors.shape[1] + 8) * 2.0**-23
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
