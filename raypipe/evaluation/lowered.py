"""Strictly decreasing float32 scores, for files that other tools sort again."""

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


def lowered(scores: Float32, groups: NDArray[np.integer] | None = None) -> Float32:
    """Strictly decreasing scores, float32 [N], each changed as little as possible.

    From the top down, a score that is not below the one above is lowered to the next float32 below
    that one. trec_eval compares float32, so a smaller step would be a tie again. The order of the
    lines is the ranking and does not change: if another stage scored the tail below a reranked
    head, the tail is lowered as far as necessary.

    Args:
        scores: float32 [N], best first; of several queries if `groups` is given.
        groups: one value per line, with the lines of a query together; None for one query.

    Raises:
        InputError: a score is NaN or infinite, or no lower float32 is left.
    """
    if not np.isfinite(scores).all():
        raise InputError("scores: NaN or infinite; expected finite float32")
    if groups is None:
        groups = np.zeros(len(scores), dtype=np.int64)
    # On the number line of float32s (see _keys) "below by at least one step" is y[i] <= y[i-1] - 1,
    # so y[i] + i is a running minimum. A group's offset is larger than any key, so the minimum
    # starts again at each query.
    query = np.concatenate([[0], np.cumsum(groups[1:] != groups[:-1])])[: len(groups)]
    slope = np.arange(len(groups)) - query * (1 << 34)
    keys = np.minimum.accumulate(_keys(scores) + slope) - slope
    if len(keys) and keys.min() < -_LARGEST_KEY:
        raise InputError("scores: no float32 is left below the smallest; expected scores > -3.4e38")
    return _scores(keys)


def steps_below(scores: Float32) -> Int64:
    """Number of float32 steps from each score up to the one before, int64 [N]; -1 for the first."""
    return np.diff(-_keys(scores), prepend=-_keys(scores[:1]) + 1)


_LARGEST_KEY = int(np.float32(np.finfo(np.float32).max).view(np.int32))


def _keys(scores: Float32) -> Int64:
    """Each score's position among all float32 values; 0 for both zeros, 1 for the next float."""
    bits = np.ascontiguousarray(scores, dtype=np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _scores(keys: Int64) -> Float32:
    """The inverse of `_keys`; 0 becomes +0.0."""
    bits = np.where(keys < 0, -keys - (1 << 31), keys)
    return bits.astype(np.int32).view(np.float32)
