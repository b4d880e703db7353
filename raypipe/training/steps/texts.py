"""Word pieces of a batch's queries and passages, collected from several sources."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from raypipe.storage.payloads import concatenate
from raypipe.text.inputs import TextSlice

Int64 = NDArray[np.int64]


class Rows(Protocol):
    """Word pieces by row; stages.token_rows.TokenRows reads them from a store."""

    def part(self, rows: Int64) -> TextSlice:
        """The pieces of these rows, in their order."""


def gathered(sources: Sequence[Rows], of_source: Int64, rows: Int64) -> TextSlice:
    """The pieces of rows [B], each from its own source, int64 [B], in their order."""
    starts, counts = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    flats = []
    before = 0
    for number in np.unique(of_source):
        own = np.flatnonzero(of_source == number)
        part = sources[number].part(rows[own])
        starts[own], counts[own] = part.starts + before, part.counts
        flats.append(part.flat)
        before += len(part.flat)
    flat, _ = concatenate([(flat, np.array([0, len(flat)])) for flat in flats])
    return TextSlice(flat, starts, counts)
