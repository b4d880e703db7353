"""The one order of every ranking: score (float32) descending, then row ascending."""

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


def order(scores: Float32, rows: Int64) -> Int64:
    """Positions that put one query's candidates best first, int64 [N].

    Args:
        scores: float32 [N]; -0.0 and 0.0 tie.
        rows: int64 [N], passage rows; the smaller row wins a tie.

    Raises:
        InputError: a score is NaN or infinite; names the positions.
    """
    check_finite(scores)
    return np.lexsort((rows, -scores))


def order_table(query_rows: NDArray[np.integer], scores: Float32, rows: Int64) -> Int64:
    """Positions that sort many queries' candidates: query row ascending, best first within, [N].

    Raises:
        InputError: a score is NaN or infinite; names the positions.
    """
    check_finite(scores)
    return np.lexsort((rows, -scores, query_rows))


def ranks(groups: NDArray[np.integer]) -> NDArray[np.int32]:
    """Rank of each line within its group, from 1, int32 [N]; a group is a stretch of equal values.

    Args:
        groups: one value a line (query rows or codes), the lines of a query standing together.
    """
    position = np.arange(len(groups), dtype=np.int64)
    starts = _group_starts(groups)
    return (position - starts[_group_numbers(groups)] + 1).astype(np.int32)


def lowered(scores: Float32, groups: NDArray[np.integer] | None = None) -> Float32:
    """Scores that fall strictly in float32, each as little changed as possible, float32 [N].

    A line that is not below the line above is lowered to the next float32 below it, from the top
    down. trec_eval compares float32, so a smaller step would be a tie again. The order of the
    lines is the ranking and is not changed: of a reranked head and a tail that some other stage
    scored, the tail is lowered as far as it needs.

    Args:
        scores: float32 [N], best first; of several queries where `groups` is given.
        groups: one value a line, the lines of a query standing together; None for one query.

    Raises:
        InputError: a score is NaN or infinite, or there is no float32 left below.
    """
    check_finite(scores)
    if groups is None:
        groups = np.zeros(len(scores), dtype=np.int64)
    # On the number line of float32s (see _keys) "below by one step at least" is y[i] <= y[i-1] - 1,
    # so y[i] + i is a running minimum. A group's offset is larger than any key, which makes the
    # minimum start afresh at each query.
    slope = ranks(groups).astype(np.int64) - _group_numbers(groups) * (1 << 34)
    keys = np.minimum.accumulate(_keys(scores) + slope) - slope
    if len(keys) and keys.min() < -_LARGEST_KEY:
        raise InputError("scores: no float32 is left below the smallest; expected scores > -3.4e38")
    return _scores(keys)


def check_finite(scores: Float32) -> None:
    """Nothing, where every score is finite.

    Raises:
        InputError: names the first ten positions (from 0) and their values.
    """
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        shown = ", ".join(f"{position}: {scores[position]}" for position in bad[:10])
        raise InputError(
            f"scores: {len(bad)} of {len(scores)} are not finite (position: value {shown}); "
            "a ranking needs finite scores: find the passages that could not be computed"
        )


_LARGEST_KEY = int(np.float32(np.finfo(np.float32).max).view(np.int32))


def _keys(scores: Float32) -> Int64:
    """Each score's place among all float32 values, 0 for both zeros; next float = next integer."""
    bits = np.ascontiguousarray(scores, dtype=np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _scores(keys: Int64) -> Float32:
    """The inverse of `_keys`; 0 becomes +0.0."""
    bits = np.where(keys < 0, -keys - (1 << 31), keys)
    return bits.astype(np.int32).view(np.float32)


def _group_starts(groups: NDArray[np.integer]) -> Int64:
    """Position of each group's first line, int64 [G]."""
    if not len(groups):
        return np.empty(0, dtype=np.int64)
    return np.concatenate([[0], np.flatnonzero(groups[1:] != groups[:-1]) + 1]).astype(np.int64)


def _group_numbers(groups: NDArray[np.integer]) -> Int64:
    """Each line's group, numbered from 0 in order of appearance, int64 [N]."""
    numbers = np.zeros(len(groups), dtype=np.int64)
    np.cumsum(groups[1:] != groups[:-1], out=numbers[1:])
    return numbers
