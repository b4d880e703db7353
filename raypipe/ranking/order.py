"""The one order of every ranking: descending score (float32), then ascending row."""

from typing import Any

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
    """Positions that sort several queries' candidates: by query row, then best first, [N].

    Raises:
        InputError: a score is NaN or infinite; names the positions.
    """
    check_finite(scores)
    return np.lexsort((rows, -scores, query_rows))


def begins(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each line begins a group, a stretch of lines equal in all columns, bool [N]."""
    first = np.ones(len(columns[0]), bool)
    first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return first


def ranks(groups: NDArray[np.integer]) -> NDArray[np.int32]:
    """Rank of each line within its group, from 1, int32 [N]; a group is a stretch of equal values.

    Args:
        groups: one value per line (query rows or codes), with the lines of a query together.
    """
    starts = np.flatnonzero(begins(groups))
    lengths = np.diff(np.append(starts, len(groups)))
    return (np.arange(1, len(groups) + 1) - np.repeat(starts, lengths)).astype(np.int32)


def check_finite(scores: Float32) -> None:
    """Returns nothing if every score is finite.

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
