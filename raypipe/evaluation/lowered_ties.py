"""The original ties of a run whose file has scores that were lowered until they decrease."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.evaluation.lowered import Float32, lowered, steps_below
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


def written_from(stored: pa.Table, queries: NDArray[np.int32], scores: Float32) -> bool:
    """Whether a file's lines are those of the stored run (schema.RUN), its scores lowered.

    Args:
        stored: the run as its store has it.
        queries: the query of each line of the file, in its order.
        scores: float32 [N], as the file has them.
    """
    if len(stored) != len(scores):
        return False
    groups = stored["query_row"].to_numpy()
    same = np.array_equal(np.diff(groups) != 0, np.diff(queries) != 0)
    return same and np.array_equal(lowered(stored["score"].to_numpy(), groups), scores)


def steps(
    queries: NDArray[np.int32],
    rank: NDArray[np.float64],
    scores: Float32,
    stages: NDArray[np.int32],
) -> Float32:
    """Scores that are equal where lines are tied: -1 for a query's first ones, then -2, ..., [N].

    Lines are tied if they follow each other by rank with the same true score of the same stage: the
    scores of a reranker and of the tail below it are never compared.
    """
    order = np.lexsort((rank, queries))
    codes, sorted_scores, by = queries[order], scores[order], stages[order]
    begins = np.ones(len(order), bool)
    begins[1:] = codes[1:] != codes[:-1]
    lower = begins.copy()
    lower[1:] |= (sorted_scores[1:] != sorted_scores[:-1]) | (by[1:] != by[:-1])
    number = np.cumsum(lower)
    first = np.maximum.accumulate(np.where(begins, number, 0))
    found = np.empty(len(order), np.float32)
    found[order] = first - number - 1
    return found
