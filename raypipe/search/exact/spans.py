"""Merging the top lists of spans of shards, and choosing the spans: numpy only."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]

MERGE_CELLS = 1 << 22
"""Candidates ordered in one go: 4M cells are about 150 MB of keys and permutations."""


def merge_topk(parts: Sequence[tuple[Rows, Scores]], depth: int) -> tuple[Rows, Scores]:
    """The best `depth` of several lists a query, whatever the order and the number of the parts.

    Args:
        parts: (rows int64 [Q, k], scores float32 [Q, k]) a part, k free, in any order inside;
            a missing place has row -1 (its score is not read). No row twice for a query.
        depth: columns of the result.

    Returns:
        rows int64 [Q, depth] and scores float32 [Q, depth]: score descending, ties by row
        ascending; missing places last, -1 and -inf.

    Raises:
        InputError: no parts, shapes that differ, a depth below 1, a NaN score, or a row that
            two parts hold for the same query (spans overlap).
    """
    num_queries = _checked(parts, depth)
    rows: Rows = np.full((num_queries, depth), -1, np.int64)
    scores: Scores = np.full((num_queries, depth), -np.inf, np.float32)
    width = sum(part_rows.shape[1] for part_rows, _ in parts)
    step = max(1, MERGE_CELLS // max(width, 1))
    for start in range(0, num_queries, step):
        chunk = slice(start, start + step)
        all_rows = np.concatenate([part_rows[chunk] for part_rows, _ in parts], axis=1)
        all_scores = np.concatenate([part_scores[chunk] for _, part_scores in parts], axis=1)
        ordered_rows, ordered_scores = ordered(all_rows, all_scores)
        _no_row_twice(ordered_rows, ordered_scores, start)
        kept = min(depth, width)
        rows[chunk, :kept] = ordered_rows[:, :kept]
        scores[chunk, :kept] = ordered_scores[:, :kept]
    return rows, scores


def ordered(rows: Rows, scores: Scores) -> tuple[Rows, Scores]:
    """Both [Q, k] arrays by score descending, then row ascending; missing places (-1) last."""
    missing = rows < 0
    scores = np.where(missing, np.float32(-np.inf), scores) + np.float32(0.0)  # one zero, +0
    key = np.where(missing, np.iinfo(np.int64).max, rows)
    order = np.lexsort((key, -scores), axis=-1)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)


def plan_spans(num_shards: int, num_actors: int) -> list[tuple[int, int]]:
    """Contiguous spans [first, last) of embedding shards, in order, at most 2 an actor.

    Two spans an actor even out a slow one; more would only re-read the queries and merge more
    lists. Sizes differ by at most one shard, the larger first. The result of a search does not
    depend on the spans.

    Raises:
        InputError: a negative number of shards or fewer than 1 actor.
    """
    if num_shards < 0 or num_actors < 1:
        raise InputError(
            f"search spans: found {num_shards} shards and {num_actors} actors, "
            "expected at least 0 and at least 1"
        )
    num_spans = min(num_shards, 2 * num_actors)
    if num_spans == 0:
        return []
    size, larger = divmod(num_shards, num_spans)
    bounds = [span * size + min(span, larger) for span in range(num_spans + 1)]
    return list(zip(bounds[:-1], bounds[1:], strict=True))


def _checked(parts: Sequence[tuple[Rows, Scores]], depth: int) -> int:
    """The number of queries that all parts share."""
    problems = [] if parts else ["merge: found no parts, expected at least 1"]
    if depth < 1:
        problems.append(f"merge: depth is {depth}, expected at least 1")
    for number, (rows, scores) in enumerate(parts):
        if rows.ndim != 2 or rows.shape != scores.shape or len(rows) != len(parts[0][0]):
            problems.append(
                f"merge: part {number} has rows {rows.shape} and scores {scores.shape}, "
                f"expected both [{len(parts[0][0])}, k]"
            )
        elif np.isnan(scores[rows >= 0]).any():
            problems.append(f"merge: part {number} holds a NaN score, which has no rank")
    if problems:
        raise InputError(problems)
    return len(parts[0][0])


def _no_row_twice(rows: Rows, scores: Scores, first_query: int) -> None:
    """Refuse overlapping spans: the copies of a row carry one exact score, so they are adjacent."""
    same = (rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0) & (scores[:, 1:] == scores[:, :-1])
    if same.any():
        query, place = (int(index) for index in np.argwhere(same)[0])
        raise InputError(
            f"merge: passage row {rows[query, place]} came twice for query row "
            f"{first_query + query}: the spans searched overlap, expected disjoint spans"
        )
