"""An older store whose rows a new one takes where the texts are equal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.names import Role, of_collection
from raypipe.stages.ids import TextHashes, ids_spec
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.records import Record, Shard
from raypipe.storage.store import Stored

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class OlderStore:
    """An older store over the rows of an older collection."""

    older: Stored
    older_hashes: Stored
    hashes: Stored
    """Of the collection whose rows are computed now."""


def origin_of(stored: Stored, *inputs: str) -> Stored | None:
    """The store that a store was made from, along these inputs; None if it is gone."""
    for name in inputs:
        spec = find_spec(stored.storage, stored.manifest.store, stored.manifest.fingerprint)
        if spec is None or name not in spec.origins:
            return None
        store, fingerprint = spec.origins[name].split("/")
        manifest = read_manifest(stored.storage, store, fingerprint)
        if manifest is None:
            return None
        stored = Stored(stored.storage, manifest)
    return stored


def source_over(older: Sequence[Stored], hashes: Stored | None, *inputs: str) -> OlderStore | None:
    """The first of these stores whose collection, along these inputs, has stored hashes."""
    for stored in older:
        collection = origin_of(stored, *inputs)
        before = None if collection is None else hashes_of_collection(collection)
        if hashes is not None and before is not None:
            return OlderStore(stored, before, hashes)
    return None


def hashes_of_collection(collection: Stored) -> Stored | None:
    """The stored hashes of a collection's texts; None if there are none."""
    for dense in (False, True):
        fingerprint = ids_spec(collection, dense).fingerprint()
        manifest = read_manifest(collection.storage, str(of_collection(Role.IDS)), fingerprint)
        if manifest is not None:
            return Stored(collection.storage, manifest)
    return None


class OpenedSource:
    """The source in a worker."""

    def __init__(self, source: OlderStore, numerics: str | None = None) -> None:
        """Maps both sides' hashes.

        Args:
            source: the older store.
            numerics: only shards of this class are copied from; None if rows have no class.
        """
        self._older = source.older
        self._before, self._now = TextHashes(source.older_hashes), TextHashes(source.hashes)
        self._records = [
            record
            for record in source.older.manifest.records
            if record.shard.num_rows and record.facts.get("numerics") == numerics
        ]
        self._starts = np.array([record.shard.start for record in self._records], np.int64)
        self._stops = np.array([record.shard.stop for record in self._records], np.int64)
        self._begins = self._before.hashes[self._starts]
        self._skipped = np.array(source.older.manifest.skipped_rows, np.int64)

    def whole(self, shard: Shard) -> Record | None:
        """The older shard with exactly these texts in this order, if there is one."""
        mine = self._now.hashes[shard.start : shard.stop]
        if not len(mine):
            return None
        for place in np.flatnonzero((self._begins == mine[0]).all(axis=1)):
            record = self._records[place]
            start, stop = record.shard.start, record.shard.stop
            same = stop - start == len(mine) and np.array_equal(
                self._before.hashes[start:stop], mine
            )
            if same and "skipped_rows" not in record.facts:
                return record
        return None

    def rows(self, rows: Int64) -> Int64:
        """The older row with the text of each of these rows, int64 [n]; -1 if there is none."""
        older = self._before.first_rows(self._now.hashes[rows])
        if not len(self._records):
            return np.full(len(rows), -1, np.int64)
        place = np.searchsorted(self._stops, older, side="right").clip(max=len(self._stops) - 1)
        inside = (older >= self._starts[place]) & (older < self._stops[place])
        return np.where(inside & ~np.isin(older, self._skipped), older, -1)

    def by_record(self, rows: Int64) -> list[tuple[Record, Int64]]:
        """Older rows, ascending and each once, with the shard that holds them."""
        groups = []
        for record, start, stop in zip(self._records, self._starts, self._stops, strict=True):
            low, high = np.searchsorted(rows, [start, stop])
            if low < high:
                groups.append((record, rows[low:high] - start))
        return groups

    def path(self, record: Record) -> Path:
        """The verified local file of an older shard."""
        return self._older.path(record)
