"""How many passages a collection has gained, lost and changed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.stages.reuse.hashes import TextHashes
from raypipe.storage.store import Stored


@dataclass(frozen=True, slots=True)
class Changes:
    """Numbers of passages, by their ids."""

    added: int
    removed: int
    changed: int
    """Passages that kept their id and have another text."""
    unchanged: int


def changes(
    ids: Stored, hashes: Stored | None, older_ids: Stored, older_hashes: Stored | None
) -> Changes:
    """What distinguishes a collection from an older one.

    Ids are compared by their 64-bit hashes, so the numbers are exact but for a collision. Without
    hashes of both sides' texts, every passage that stayed counts as unchanged.
    """
    now, rows = _sorted_ids(ids)
    before, older_rows = _sorted_ids(older_ids)
    place = np.searchsorted(before, now).clip(max=max(0, len(before) - 1))
    stayed = before[place] == now if len(before) else np.zeros(len(now), bool)
    num_stayed, num_changed = int(stayed.sum()), 0
    if hashes is not None and older_hashes is not None:
        mine = TextHashes(hashes).hashes[rows[stayed]]
        other = TextHashes(older_hashes).hashes[older_rows[place[stayed]]]
        num_changed = int((mine != other).any(axis=1).sum())
    return Changes(
        added=len(now) - num_stayed,
        removed=len(before) - num_stayed,
        changed=num_changed,
        unchanged=num_stayed - num_changed,
    )


def _sorted_ids(ids: Stored) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The sorted hashes of a collection's ids, and their rows."""
    hashes, rows = np.load(ids.path(ids.manifest.records[0]), mmap_mode="r")
    return hashes, rows.astype(np.int64)
