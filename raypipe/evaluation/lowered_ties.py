"""Ties found again in a file whose scores were lowered until they fall strictly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.evaluation.lowered import Float32, steps_below
from raypipe.evaluation.run_files.columns import places


@dataclass(frozen=True, slots=True)
class Raised:
    """A run's scores as they were before ties were lowered, as far as the file shows it."""

    scores: Float32
    """float32 [N], in the order of the lines."""
    num_lowered: int
    """Lines one float32 step below the line above, counted as tied with it."""
    tail_from: int | None
    """The rank from which every line of every query is such: what a reranker left in place."""


def raised(queries: NDArray[np.int32], scores: Float32) -> Raised:
    """The scores with each chain of single float32 steps raised to its first line's.

    `write_trec` lowers a tie by one step a line and leaves no two scores equal. So a file with
    equal scores is of another tool, and is not touched. Rows below a reranker's depth are lowered
    too, whatever they scored: where from one rank on, in two queries or more, all lines are single
    steps to the end, those are no ties that anyone could tell, and are left as they are.

    Args:
        queries: the query of each line, any order.
        scores: float32 [N].
    """
    order = np.lexsort((-scores, queries))
    codes, sorted_scores = queries[order], scores[order]
    steps = steps_below(sorted_scores)
    steps[1:][codes[1:] != codes[:-1]] = -1
    if not len(steps) or (steps == 0).any():
        return Raised(scores, 0, None)
    chained = steps == 1
    rank = places(codes)
    head = int(rank[~chained].max())
    rows = np.bincount(codes)
    tail_from = head + 1 if head > 1 and (rows > head).sum() > 1 else None
    if tail_from is not None:
        chained &= rank < tail_from
    first = np.maximum.accumulate(np.where(chained, 0, np.arange(len(chained))))
    found = np.empty_like(scores)
    found[order] = sorted_scores[first]
    return Raised(found, int(chained.sum()), tail_from)
