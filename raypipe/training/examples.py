"""Training examples: a query, a relevant passage and irrelevant ones; and their order by step.

They are flat arrays in one safetensors file, mapped for reading: 400M triples are 4.8 GB on disk
and take almost no memory. The order of an epoch is a pseudorandom permutation that is computed, not
stored: a restart needs only the step's number.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.storage.payloads import map_tensors, write_tensors

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
NO_RUN = 255
ROWS_AT_ONCE = 1 << 24


@dataclass(frozen=True, slots=True)
class Examples:
    """N examples of L passages each."""

    query_rows: Int32
    """[N]"""
    passage_rows: Int32
    """[N, L]; without labels the first is relevant, the others are treated as irrelevant."""
    runs: NDArray[np.uint8] | None = None
    """[N, L]: the run that a passage came from; NO_RUN for judgements, None for given triples."""
    ranks: Int32 | None = None
    """[N, L]: its rank there, 0 for judgements."""
    teacher: Float32 | None = None
    """[N, L]: another model's score."""
    labels: Float32 | None = None
    """[N, 1]: 1.0 for relevant passages, 0.0 for others, where each passage is its own example."""
    first_stage: Float32 | None = None
    """[N, L]: z, the first stage's score from 0 to 1."""
    relevant: Int64 | None = None
    """Sorted `query_row << 32 | passage_row` of every pair known as relevant, of the first rows
    with their texts."""
    query_copies: Int64 | None = None
    """[2, C]: rows whose text an earlier row has too, ascending, and the first row with it."""
    passage_copies: Int64 | None = None
    """[2, C]: the same of the passages of these examples."""

    @property
    def num_examples(self) -> int:
        """N."""
        return len(self.query_rows)

    @property
    def num_passages(self) -> int:
        """L."""
        return int(self.passage_rows.shape[1])

    @property
    def is_judged(self) -> bool:
        """Whether an example's first passage is known as relevant, not drawn from a run."""
        return self.runs is None or self.labels is not None or NO_RUN in self.runs[:1, 0]

    def are_relevant(self, query_rows: Int64, passage_rows: Int64) -> NDArray[np.bool_]:
        """Whether pairs are known as relevant by their texts, in the shape of both, broadcast."""
        if self.relevant is None:
            return np.zeros(np.broadcast_shapes(query_rows.shape, passage_rows.shape), bool)
        texts = RelevantTexts(self.relevant, self.query_copies, self.passage_copies)
        return texts.include(query_rows, passage_rows)


@dataclass(frozen=True, slots=True)
class RelevantTexts:
    """The pairs known as relevant, by text: a copy of a query or passage counts as its first row.

    So a passage is relevant for a query, whatever its id, if its text is that of a passage which is
    judged relevant for this query, or for another query of the same text.
    """

    keys: Int64
    """Sorted pair keys of first rows."""
    query_copies: Int64 | None
    """[2, C], as those of `Examples`; None means that no text stands twice."""
    passage_copies: Int64 | None

    @classmethod
    def of(
        cls, pairs: Int64, query_copies: Int64 | None, passage_copies: Int64 | None
    ) -> "RelevantTexts":
        """The texts of pairs, given as keys of any rows."""
        firsts = first_rows(query_copies, pairs >> 32), first_rows(passage_copies, pairs & _ROW)
        return cls(np.unique(pair_keys(*firsts)), query_copies, passage_copies)

    def include(self, query_rows: Int64, passage_rows: Int64) -> NDArray[np.bool_]:
        """Whether pairs have the texts of relevant ones, in the shape of both, broadcast."""
        queries = first_rows(self.query_copies, query_rows)
        passages = first_rows(self.passage_copies, passage_rows)
        return are_among(self.keys, pair_keys(queries, passages))


_ROW = (1 << 32) - 1


def first_rows(copies: Int64 | None, rows: Int64) -> Int64:
    """The first row with the text of each row, in their shape; see `Examples.query_copies`."""
    if copies is None or not copies.shape[1]:
        return rows
    places = np.searchsorted(copies[0], rows).clip(max=copies.shape[1] - 1)
    firsts: Int64 = np.where(copies[0][places] == rows, copies[1][places], rows)
    return firsts


def are_among(keys: Int64, values: Int64) -> NDArray[np.bool_]:
    """Whether each value is one of the sorted keys, in the shape of the values."""
    if not len(keys):
        return np.zeros(values.shape, bool)
    places = np.searchsorted(keys, values).clip(max=len(keys) - 1)
    among: NDArray[np.bool_] = keys[places] == values
    return among


def pair_keys(query_rows: Int64, passage_rows: Int64) -> Int64:
    """One int64 per pair; they sort by query, then passage."""
    return (query_rows.astype(np.int64) << 32) | passage_rows.astype(np.int64)


def distinct(rows: NDArray[Any], second: NDArray[Any] | None = None) -> Int64:
    """The distinct values, or the distinct pair keys with a second array, int64, sorted.

    It works in chunks, so that of mapped arrays only distinct values are in memory.
    """
    found = np.empty(0, np.int64)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = np.asarray(rows[start : start + ROWS_AT_ONCE], np.int64)
        if second is not None:
            part = pair_keys(part, np.asarray(second[start : start + ROWS_AT_ONCE], np.int64))
        found = np.union1d(found, part)
    return found


def write_examples(path: Path, examples: Examples) -> None:
    """Write the examples as one safetensors file."""
    tensors = {
        name: np.ascontiguousarray(value)
        for name in Examples.__slots__
        if (value := getattr(examples, name)) is not None
    }
    write_tensors(path, tensors)


def map_examples(path: Path) -> Examples:
    """The examples in a file of `write_examples`, mapped."""
    return Examples(**map_tensors(path))


UInt64 = NDArray[np.uint64]
ROUNDS = 6


def permuted(positions: Int64, *, size: int, seed: int, epoch: int) -> Int64:
    """The images of these positions, int64, under a permutation of 0..size-1, in their order.

    It is a Feistel network over the smallest even number of bits that holds `size`. A value outside
    is mapped again (Black & Rogaway 2002, cycle walking), at most 4 times on average.
    """
    half = max(1, -(-(size - 1).bit_length() // 2))
    mask = np.uint64((1 << half) - 1)
    shift = np.uint64(half)
    keys = _keys(seed, epoch)
    images = positions.astype(np.uint64)
    todo = np.ones(len(images), bool)
    while todo.any():
        left, right = images[todo] >> shift, images[todo] & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        images[todo] = (left << shift) | right
        todo &= images >= size
    return images.astype(np.int64)


def _keys(seed: int, epoch: int) -> UInt64:
    digest = hashlib.sha512(f"raypipe sampler {seed} {epoch}".encode()).digest()
    return np.frombuffer(digest, "<u8")[:ROUNDS].astype(np.uint64)


def _mixed(x: UInt64) -> UInt64:
    """splitmix64's finaliser (Steele et al. 2014): every bit of x reaches every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Sampler:
    """Global batches over `num_examples`; every epoch takes each example once."""

    num_examples: int
    batch_examples: int
    seed: int

    def batch(self, step: int) -> Int64:
        """The examples of a step, int64 [batch_examples]; batches run on across epochs."""
        places = np.arange(self.batch_examples, dtype=np.int64) + step * self.batch_examples
        epochs, positions = np.divmod(places, self.num_examples)
        out = np.empty_like(places)
        for epoch in np.unique(epochs):
            own = epochs == epoch
            out[own] = permuted(
                positions[own], size=self.num_examples, seed=self.seed, epoch=int(epoch)
            )
        return out
