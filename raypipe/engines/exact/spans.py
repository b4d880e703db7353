"""The order of a top list, and the spans of shards that are searched separately."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.storage.records import Shard

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


def ordered(rows: Rows, scores: Scores) -> tuple[Rows, Scores]:
    """Both [Q, k] arrays by descending score, then ascending row; missing places (-1) last."""
    missing = rows < 0
    scores = np.where(missing, np.float32(-np.inf), scores) + np.float32(0.0)  # one zero, +0
    key = np.where(missing, np.iinfo(np.int64).max, rows)
    order = np.lexsort((key, -scores), axis=-1)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)


def plan_spans(shards: Sequence[Shard], num_actors: int) -> list[tuple[int, int]]:
    """Rows [start, stop) of contiguous spans of embedding shards, in order, at most 2 per actor.

    Two spans per actor compensate for a slow actor; more would only re-read the queries and merge
    more lists. The spans end where shards end, as near to equal numbers of rows as they allow; the
    result of a search does not depend on them.

    Raises:
        InputError: fewer than 1 actor.
    """
    if num_actors < 1:
        raise InputError(f"search spans: found {num_actors} actors, expected at least 1")
    stops = [shard.stop for shard in shards if shard.num_rows]
    num_spans = min(len(stops), 2 * num_actors)
    spans, start = [], 0
    for span in range(num_spans):
        # Every later span keeps at least one shard.
        first, last = bisect_right(stops, start), len(stops) - (num_spans - span)
        wanted = stops[-1] * (span + 1) / num_spans
        nearest = min(range(first, last + 1), key=lambda place: abs(stops[place] - wanted))
        spans.append((start, stops[nearest]))
        start = stops[nearest]
    return spans
