"""Finds the original ties in a file whose scores were lowered until they strictly decrease."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.evaluation.lowered import Float32, steps_below
from raypipe.evaluation.run_files.columns import places


@dataclass(frozen=True, slots=True)
class Raised:
    """A run's scores before ties were lowered, as far as the file shows them."""

    scores: Float32
    """float32 [N], in the order of the lines."""
    num_lowered: int
    """Lines one float32 step below the line above, counted as tied with it."""
    tail_from: int | None
    """The rank from which every line of every query is such a line: rows that a reranker left in
    place."""


def raised(queries: NDArray[np.int32], scores: Float32) -> Raised:
    """The scores, with each chain of single float32 steps raised to its first line's score.

    `write_trec` lowers a tie by one step per line, so that no two scores are equal. So a file with
    equal scores comes from another tool and is not changed. Rows below a reranker's depth are
    lowered too, whatever their scores were. If all lines from one rank on are single steps, in two
    or more queries, real ties cannot be recognised among them, and these lines are left unchanged.

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
