"""Stored embeddings as a search reads them: mapped, and without those in quarantine."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from raypipe.storage.records import Record
from raypipe.storage.store import Stored


def query_vectors(queries: Stored, start: int, stop: int) -> NDArray[np.float16]:
    """The embeddings of query rows [start, stop), fp16 [Q, D]."""
    parts = [
        queries.vectors(record)[first:last]
        for record, first, last in queries.overlapping(start, stop)
    ]
    return np.ascontiguousarray(np.concatenate(parts))


def all_vectors(embeddings: Stored) -> Iterator[tuple[int, NDArray[np.float16]]]:
    """The vectors that are not in quarantine, each range with the row of its first one."""
    for record in embeddings.manifest.records:
        yield from ranked_vectors(embeddings, record, 0, record.shard.num_rows)


def ranked_vectors(
    embeddings: Stored, record: Record, first: int, last: int
) -> Iterator[tuple[int, NDArray[np.float16]]]:
    """Vectors [first, last) of a shard without those in quarantine, which are never ranked.

    Each range of them comes with the passage row of its first vector.
    """
    vectors, start = embeddings.vectors(record), record.shard.start
    skipped = [row - start for row in embeddings.manifest.skipped_rows]
    edges = [row for row in skipped if first <= row < last]
    for low, high in zip([first - 1, *edges], [*edges, last], strict=True):
        if low + 1 < high:
            yield start + low + 1, vectors[low + 1 : high]


def vectors_of_rows(embeddings: Stored, rows: NDArray[np.int64]) -> NDArray[np.float16]:
    """The embeddings of ascending rows, at least one, fp16 [N, D]; reads only their pages."""
    parts = []
    for record, _, _ in embeddings.overlapping(int(rows[0]), int(rows[-1]) + 1):
        low, high = np.searchsorted(rows, [record.shard.start, record.shard.stop])
        if low < high:
            parts.append(embeddings.vectors(record)[rows[low:high] - record.shard.start])
    return np.concatenate(parts)


def dim_of(embeddings: Stored) -> int:
    """The number of dimensions."""
    return int(embeddings.vectors(embeddings.manifest.records[0]).shape[1])
