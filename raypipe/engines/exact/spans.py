"""The order of a top list, and the spans of shards that are searched separately."""

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


def ordered(rows: Rows, scores: Scores) -> tuple[Rows, Scores]:
    """Both [Q, k] arrays by descending score, then ascending row; missing places (-1) last."""
    missing = rows < 0
    scores = np.where(missing, np.float32(-np.inf), scores) + np.float32(0.0)  # one zero, +0
    key = np.where(missing, np.iinfo(np.int64).max, rows)
    order = np.lexsort((key, -scores), axis=-1)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)


def plan_spans(num_shards: int, num_actors: int) -> list[tuple[int, int]]:
    """Contiguous spans [first, last) of embedding shards, in order, at most 2 per actor.

    Two spans per actor compensate for a slow actor; more would only re-read the queries and merge
    more lists. Sizes differ by at most one shard, the larger first. The result of a search does not
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
