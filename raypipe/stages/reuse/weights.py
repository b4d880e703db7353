"""What shards of rows weigh, by what the records of an older store hold of the same rows."""

from collections.abc import Callable, Sequence

import numpy as np

from raypipe.storage.records import Record, Shard
from raypipe.storage.store import Stored


def spread(
    stored: Stored, weigh: Callable[[Record], float], shards: Sequence[Shard]
) -> list[float]:
    """The weight of each shard: that of a record, spread evenly over its rows; reads no payload."""
    records = sorted(stored.manifest.records, key=lambda record: record.shard.start)
    edges = np.array([0, *(record.shard.stop for record in records)], np.float64)
    sums = np.cumsum([0.0, *(weigh(record) for record in records)])
    starts, stops = (np.array([getattr(s, at) for s in shards]) for at in ("start", "stop"))
    found: list[float] = (np.interp(stops, edges, sums) - np.interp(starts, edges, sums)).tolist()
    return found
