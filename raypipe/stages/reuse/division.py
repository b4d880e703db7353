"""The division of a shard's rows: those copied from an older store, and those computed."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.stages.stage import Payload
from raypipe.storage.records import Record, Shard

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Division:
    """The rows of a shard by where their values come from; positions are those of `rows`."""

    rows: Int64
    older: Int64
    """The older row of each; -1 if its value is computed."""
    computed: Int64
    """Positions of the rows to compute, each text once, ascending."""
    value_of: Int64
    """For each row that is not copied, the place of its value among `computed`; else -1."""

    @property
    def copied(self) -> Int64:
        """The older rows to copy, ascending and each once."""
        return np.unique(self.older[self.older >= 0])

    @property
    def places(self) -> Int64:
        """The place of each row's value among those of `copied`, then those of `computed`."""
        copied = self.copied
        found = np.searchsorted(copied, self.older)
        return np.where(self.older >= 0, found, len(copied) + self.value_of)

    @property
    def num_copied(self) -> int:
        """Number of rows whose value is copied."""
        return int((self.older >= 0).sum())

    def all_rows_of(self, places: list[int]) -> list[int]:
        """The rows that share the values at these places of `computed`."""
        return [int(row) for row in self.rows[np.isin(self.value_of, places)]]


def divide(rows: Int64, keys: NDArray[np.uint64] | Int64 | None, older: Int64 | None) -> Division:
    """Rows to copy and rows to compute.

    Args:
        rows: the rows of a shard that are wanted.
        keys: [n, k]; rows of equal keys have equal values and are computed once. None: all differ.
        older: see Division; None if nothing can be copied.
    """
    older = np.full(len(rows), -1, np.int64) if older is None else older
    waiting = np.flatnonzero(older < 0)
    value_of = np.full(len(rows), -1, np.int64)
    if keys is None:
        value_of[waiting] = np.arange(len(waiting))
        return Division(rows, older, waiting, value_of)
    _, first, inverse = np.unique(keys[waiting], axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    value_of[waiting] = np.argsort(order)[inverse.reshape(-1)]
    return Division(rows, older, waiting[first[order]], value_of)


def same_payload(record: Record, path: Path, scratch: Path, shard: Shard) -> Payload:
    """An older shard's payload as that of a new one: no byte is written."""
    target = scratch / f"{shard.index}.same"
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:  # another file system: the cached copy of a bucket's blob
        shutil.copyfile(path, target)
    return Payload(target, record.facts, num_copied=shard.num_rows)
