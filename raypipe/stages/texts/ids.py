"""Original ids and rows: the stage of the id index, and ids read back for users."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.ids import IdIndex, build_id_index, check_dense_ids
from raypipe.names import Role, of_collection
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.payloads import ROW_GROUP_ROWS, read_table
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

ID_BYTES = 24


@dataclass(frozen=True)
class IdsStage:
    """The id index of passages or documents; refuses duplicate ids and checks dense ones."""

    collection: Stored
    dense: bool = False
    files: tuple[tuple[str, int], ...] = ()
    """What messages call a record of each file whose records are the rows, and how many it has."""
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The collection, and whether its ids must be 0 to n-1."""
        stores = {"collection": self.collection}
        return spec_over("ids", 1, {"dense": self.dense}, stores, produces="ids")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard: it sorts all ids, at 24 bytes each."""
        return [Shard(0, 0, self.collection.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return ID_BYTES * num_rows

    def open(self, site: Site) -> Opened:
        """See Stage; the index file. Its `run` raises InputError for repeated ids."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        if self.dense:
            check_dense_ids(self._batches(beat), name="collection")
        path = scratch / "ids"
        rows, place = self._ids_of_rows, self._place
        count = build_id_index(self._batches(beat), path, ids_of_rows=rows, place=place)
        return Payload(path, {"rows": count})

    def _batches(self, beat: Beat) -> Iterator[list[str]]:
        for batch in all_ids(self.collection):
            beat(())
            yield batch

    def _place(self, row: int) -> str:
        """The file and the number of a row's record in it, from 1."""
        for name, num_records in self.files:
            if row < num_records:
                return f"{name} {row + 1:,}"
            row -= num_records
        return f"row {row + 1:,}"

    def _ids_of_rows(self, rows: NDArray[np.int64]) -> Sequence[str]:
        return ids_of_rows(self.collection, rows)


def all_ids(collection: Stored) -> Iterator[list[str]]:
    """The original ids of all passages or documents by row, a row group at a time."""
    named = _id_column(collection)
    for record in collection.manifest.records:
        path = collection.path(record)
        for start in range(0, record.shard.num_rows, ROW_GROUP_ROWS):
            yield _column(path, start, start + ROW_GROUP_ROWS, *named).to_pylist()


def ids_of_rows(collection: Stored, rows: NDArray[np.int64]) -> list[str]:
    """Original ids of rows of passages or documents, in the order given."""
    return column_of_rows(collection, rows, *_id_column(collection))


def column_of_rows(
    collection: Stored,
    rows: NDArray[np.int64],
    column: str,
    columns: pa.Schema = schema.PASSAGES,
) -> list[str]:
    """A column of rows, in the order given; reads only their row groups.

    `columns` is the schema of the store, passages unless it says otherwise.
    """
    distinct, inverse = np.unique(rows, return_inverse=True)
    found: list[str] = []
    position = 0
    for record in collection.manifest.records:
        first = record.shard.start
        while position < len(distinct) and distinct[position] < record.shard.stop:
            group = int(distinct[position] - first) // ROW_GROUP_ROWS
            start = first + group * ROW_GROUP_ROWS
            stop = min(start + ROW_GROUP_ROWS, record.shard.stop)
            end = int(np.searchsorted(distinct, stop))
            path = collection.path(record)
            values = _column(path, start - first, stop - first, column, columns)
            found += values.take(distinct[position:end] - start).to_pylist()
            position = end
    return [found[place] for place in inverse.tolist()]


def id_index(collection: Stored, ids: Stored) -> IdIndex:
    """The stored id index, which finds the rows of original ids."""
    path = ids.path(ids.manifest.records[0])
    return IdIndex(path, lambda rows: ids_of_rows(collection, rows))


def _id_column(stored: Stored) -> tuple[str, pa.Schema]:
    """The column with the ids of a store of passages or documents, and the store's schema."""
    if holds_documents(stored):
        return "document_id", schema.DOCUMENTS
    return "passage_id", schema.PASSAGES


def holds_documents(stored: Stored) -> bool:
    """Whether the rows of a store are the collection's documents."""
    return stored.manifest.store == str(of_collection(Role.DOCUMENTS))


def _column(path: Path, start: int, stop: int, column: str, columns: pa.Schema) -> pa.ChunkedArray:
    table = read_table(path, columns, start=start, stop=stop, columns=[column])
    return table[column]
