"""Shards that begin where the content says, so that a change moves only the shards around it.

Also how much such shards weigh, by the records of a store with the same rows.
"""

from collections.abc import Callable, Sequence

import numpy as np

from raypipe.stages.ids import TextHashes
from raypipe.stages.stage import Expectations, ranges
from raypipe.storage.records import Record, Shard
from raypipe.storage.store import Stored

LEAST_ROWS = 512
"""A collection of many times this is not cut into smaller shards than this, ..."""
NUM_SHARDS = 64
"""... and a larger one into at least about this number, whatever the work of a shard."""


def shards_by_content(num_rows: int, work: int, hashes: Stored | None) -> list[Shard]:
    """Shards of about `work` rows at most; without hashes, ranges of that size.

    A row begins a shard if its hash says so and the shard before has half the wanted size; a shard
    of twice the wanted size ends anywhere. The wanted size is a power of two, so that a slightly
    larger or longer collection keeps its boundaries.
    """
    if hashes is None or not num_rows:
        return ranges(num_rows, max(1, work))
    wanted = _wanted(num_rows, work)
    least, largest = max(1, wanted // 2), 2 * wanted
    begins = np.flatnonzero((TextHashes(hashes).hashes[:, 1] & np.uint64(least - 1)) == 0)
    edges = [0]
    while num_rows - edges[-1] > least:
        place = np.searchsorted(begins, edges[-1] + least)
        content = int(begins[place]) if place < len(begins) else num_rows
        edges.append(min(content, edges[-1] + largest, num_rows))
    if edges[-1] < num_rows:
        edges.append(num_rows)
    pairs = zip(edges[:-1], edges[1:], strict=True)
    return [Shard(index, start, stop) for index, (start, stop) in enumerate(pairs)]


def expected_shards(
    num_rows: int, work: int, hashes: Stored | None, expectations: Expectations
) -> list[Shard]:
    """Shards as of `shards_by_content`, or about as many if the texts' hashes are not there yet.

    On average it waits as long for a row that begins a shard as half the wanted size.
    """
    if hashes is None or expectations.has(hashes):
        return shards_by_content(num_rows, work, hashes)
    return ranges(num_rows, _wanted(num_rows, max(1, work)))


def _wanted(num_rows: int, work: int) -> int:
    return min(_power(work), max(LEAST_ROWS, _power(num_rows // NUM_SHARDS)))


def _power(number: int) -> int:
    """The largest power of two up to the number; 1 for none."""
    return 1 << max(0, number.bit_length() - 1)


def spread(
    stored: Stored, weigh: Callable[[Record], float], shards: Sequence[Shard]
) -> list[float]:
    """The weight of each shard: that of a record, spread evenly over its rows; reads no payload."""
    records = sorted(stored.manifest.records, key=lambda record: record.shard.start)
    edges = np.array([0, *(record.shard.stop for record in records)], np.float64)
    sums = np.cumsum([0.0, *(weigh(record) for record in records)])
    starts, stops = (np.array([getattr(s, at) for s in shards]) for at in ("start", "stop"))
    weights: list[float] = (np.interp(stops, edges, sums) - np.interp(starts, edges, sums)).tolist()
    return weights
