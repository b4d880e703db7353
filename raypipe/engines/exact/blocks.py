"""Embedding shards as float32 blocks of bounded size, and rows gathered from them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.score import widen
from raypipe.errors import InputError

NAMED_ROWS = 10
FP16_BEYOND = 65536.0
"""For an infinity or a NaN, `widen` writes a value of at least this magnitude."""


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


def float32_blocks(shards: Sequence[ShardVectors], buffer: NDArray[np.float32]) -> Iterator[Block]:
    """The rows of all shards in ascending order, in blocks of as many as `buffer` [n, D] holds.

    Args:
        shards: as `checked_shards` returns them.
        buffer: overwritten by every block.

    Raises:
        InputError: a row holds a NaN or an infinity; the message names the rows.
    """
    ids = np.empty(len(buffer), np.int64)
    filled = 0
    for shard in shards:
        start = 0
        while start < len(shard.vectors):
            stop = min(len(shard.vectors), start + len(buffer) - filled)
            end = filled + stop - start
            widen(shard.vectors[start:stop], buffer[filled:end])
            ids[filled:end] = np.arange(shard.first_row + start, shard.first_row + stop)
            filled, start = end, stop
            if filled == len(buffer):
                yield _block(ids, buffer)
                filled = 0
    if filled:
        yield _block(ids[:filled], buffer[:filled])


def gather(shards: Sequence[ShardVectors], rows: NDArray[np.int64]) -> NDArray[np.float16]:
    """The stored vectors [n, D] of ascending rows; every row must be in some shard."""
    firsts = np.array([shard.first_row for shard in shards], np.int64)
    owners = np.searchsorted(firsts, rows, side="right") - 1
    bounds = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(rows)]
    out = np.empty((len(rows), shards[0].vectors.shape[1]), np.float16)
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        shard = shards[owners[start]]
        out[start:stop] = shard.vectors[rows[start:stop] - shard.first_row]
    return out


def upper_norms(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Euclidean norms float64 [n], rounded up: never below the true ones."""
    squares = np.einsum("nd,nd->n", vectors, vectors)
    inflated = 1 + (vectors.shape[1] + 8) * 2.0**-23
    norms: NDArray[np.float64] = np.sqrt(squares.astype(np.float64)) * inflated
    return norms


def refuse_nonfinite(
    what: str, rows: NDArray[np.int64], vectors: NDArray[np.float32], norms: NDArray[np.float64]
) -> None:
    """Raise InputError naming the rows that `widen` marked as infinite or NaN."""
    suspects = np.flatnonzero(norms >= FP16_BEYOND)  # no other row can hold such a value
    bad = suspects[(np.abs(vectors[suspects]) >= FP16_BEYOND).any(axis=1)]
    if len(bad):
        named = ", ".join(str(row) for row in rows[bad[:NAMED_ROWS]].tolist())
        more = f" and {len(bad) - NAMED_ROWS} more" if len(bad) > NAMED_ROWS else ""
        raise InputError(
            f"{what} row {named}{more}: found NaN or infinity, expected finite fp16 values; "
            "such a row has no score: encode it again, or quarantine it so that it is skipped"
        )


def _block(ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> Block:
    norms = upper_norms(vectors)
    refuse_nonfinite("embedding", ids, vectors, norms)
    return Block(ids, vectors, norms)
