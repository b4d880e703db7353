"""Batches by token budget, shortest first, so that equal lengths are together."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


def batches(lengths: Int64, *, budget_tokens: int) -> Iterator[Int64]:
    """Positions of each batch, int64, by length, then position; the caller restores the order.

    A batch holds at most `budget_tokens` tokens, or a single longer row.
    """
    order = np.argsort(lengths, kind="stable")
    for start, stop in spans(lengths[order], budget_tokens):
        yield order[start:stop]


def spans(sizes: Int64, budget: int) -> Iterator[tuple[int, int]]:
    """Beginning and end of stretches, in order: each of sizes up to the budget, or a larger one."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + budget, side="right"))
        stop = max(stop, start + 1)
        yield start, stop
        start = stop
