"""A finished store for its readers: a manifest and verified local payloads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.errors import IncompleteError
from raypipe.storage.ledger import Ledger, find_spec
from raypipe.storage.payloads import (
    ROW_GROUP_ROWS,
    Flat,
    Offsets,
    concatenate,
    read_table,
    read_tokens,
    read_vectors,
)
from raypipe.storage.records import Json, Manifest, Record
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage


@dataclass(frozen=True)
class Stored:
    """A published store. Readers use its manifest and never list folders."""

    storage: Storage
    manifest: Manifest

    @property
    def num_rows(self) -> int:
        """Number of rows of the store."""
        return self.manifest.num_rows

    @property
    def num_bytes(self) -> int:
        """Size of its payloads in bytes."""
        return sum(record.num_bytes for record in self.manifest.records)

    @property
    def identity(self) -> str:
        """The hash of it in downstream fingerprints; see Manifest."""
        return self.manifest.identity

    @property
    def origin(self) -> str:
        """Its place under the root of the stores: STORE/FINGERPRINT."""
        return f"{self.manifest.store}/{self.manifest.fingerprint}"

    @property
    def spec(self) -> StageSpec:
        """The specification of all that its rows depend on.

        Raises:
            IncompleteError: its spec.json is missing.
        """
        spec = find_spec(self.storage, self.manifest.store, self.manifest.fingerprint)
        if spec is None:
            raise IncompleteError(
                f"{self.origin}: its spec.json is missing; run its pipeline again"
            )
        return spec

    def path(self, record: Record) -> Path:
        """The verified local file of a shard."""
        return self.storage.local(record.sha256)

    def overlapping(self, start: int, stop: int) -> Iterator[tuple[Record, int, int]]:
        """Shards that hold rows of [start, stop), each with its range from the shard's start."""
        for record in self.manifest.records:
            first = max(start, record.shard.start)
            last = min(stop, record.shard.stop)
            if first < last:
                yield record, first - record.shard.start, last - record.shard.start

    def table(self, schema: pa.Schema, start: int = 0, stop: int | None = None) -> pa.Table:
        """Rows [start, stop) of a store of tables whose shards are ranges of those rows."""
        stop = self.num_rows if stop is None else stop
        parts = [
            read_table(self.path(record), schema, start=first, stop=last)
            for record, first, last in self.overlapping(start, stop)
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def tables(
        self, schema: pa.Schema, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.Table]:
        """Rows [start, stop) in tables of 8,192 rows at most, so that memory holds no more."""
        stop = self.num_rows if stop is None else stop
        for first in range(start, stop, ROW_GROUP_ROWS):
            yield self.table(schema, first, min(first + ROW_GROUP_ROWS, stop))

    def whole_table(self, schema: pa.Schema) -> pa.Table:
        """All shards' tables in shard order, if a table's rows are not the shard's rows."""
        parts = [read_table(self.path(r), schema) for r in self.manifest.records]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def tokens(self, start: int, stop: int) -> tuple[Flat, Offsets]:
        """Word pieces of rows [start, stop): flat and offsets int64 [stop - start + 1]."""
        parts = []
        for record, first, last in self.overlapping(start, stop):
            flat, offsets = read_tokens(self.path(record))
            part = offsets[first : last + 1]
            parts.append((flat[part[0] : part[-1]], part - part[0]))
        return concatenate(parts)

    def vectors(self, record: Record) -> NDArray[np.float16]:
        """A shard's embeddings, fp16 [rows, dim], mapped."""
        return read_vectors(self.path(record))


def spec_over(
    stage: str,
    semantics: int,
    params: Mapping[str, Json],
    stores: Mapping[str, Stored],
    *,
    produces: str,
    content: Mapping[str, str] | None = None,
    reuse_key: str = "",
) -> StageSpec:
    """The spec of a stage that reads these stores and other content with these hashes."""
    return StageSpec(
        stage,
        semantics,
        params,
        {**{name: stored.identity for name, stored in stores.items()}, **(content or {})},
        produces,
        {name: stored.origin for name, stored in stores.items()},
        reuse_key,
    )


def committed(storage: Storage, store: str, spec: StageSpec) -> Stored | None:
    """The committed part of a store, complete or not, for reading; None if it has no plan."""
    try:
        ledger = Ledger(storage, store, spec)
    except IncompleteError:
        return None
    manifest = ledger.manifest()
    if manifest is None:
        waiting = set(ledger.pending())
        records = tuple(ledger.record(s) for s in ledger.shards if s not in waiting)
        manifest = Manifest(store, ledger.fingerprint, records, ())
    return Stored(storage, manifest)
