"""The rows of two collections that have the same id."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from raypipe.storage.store import Stored

Int64 = NDArray[np.int64]
IDS_AT_ONCE = 1 << 20
"""Memory is 32 bytes times this number, however large the collections are."""


def rows_by_id(ids: Stored, other: Stored) -> Iterator[tuple[Int64, Int64]]:
    """Rows of a collection, and the row of each one's id in another: int64 [n], -1 if it has none.

    All rows come once, a million at a time, in the order of the hashes of their ids. Ids are
    compared by these 64 bits, so pairs are exact but for a collision.

    Args:
        ids: the id index of the collection.
        other: that of the other collection.
    """
    hashes, rows = _sorted_ids(ids)
    other_hashes, other_rows = _sorted_ids(other)
    for start in range(0, len(hashes), IDS_AT_ONCE):
        part = hashes[start : start + IDS_AT_ONCE]
        low = np.searchsorted(other_hashes, part[0])
        high = np.searchsorted(other_hashes, part[-1], side="right")
        pairs = np.full(len(part), -1, np.int64)
        if low < high:
            window = other_hashes[low:high]
            places = np.searchsorted(window, part).clip(max=len(window) - 1)
            same = window[places] == part
            pairs[same] = other_rows[low:high][places[same]].astype(np.int64)
        yield rows[start : start + IDS_AT_ONCE].astype(np.int64), pairs


def _sorted_ids(ids: Stored) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The sorted hashes of a collection's ids and their rows, mapped."""
    hashes, rows = np.load(ids.path(ids.manifest.records[0]), mmap_mode="r")
    return hashes, rows
