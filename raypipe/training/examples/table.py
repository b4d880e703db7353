"""Training examples: a query, a relevant passage and irrelevant ones.

They are flat arrays in one safetensors file, mapped for reading: 400M triples are 4.8 GB on disk
and take almost no memory.
"""

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
    """Sorted `query_row << 32 | passage_row` of every pair known as relevant."""

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
        """Whether pairs are known as relevant, elementwise for arrays of one shape."""
        keys = pair_keys(query_rows, passage_rows)
        if self.relevant is None or not len(self.relevant):
            return np.zeros(keys.shape, bool)
        places = np.searchsorted(self.relevant, keys).clip(max=len(self.relevant) - 1)
        found: NDArray[np.bool_] = self.relevant[places] == keys
        return found


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
