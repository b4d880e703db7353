"""Rows by original ids and by texts: the stage of both indexes, and ids read back for users."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.ids import IdIndex, build_id_index, check_dense_ids
from raypipe.names import Role, of_collection
from raypipe.stages.reuse.hashes import ids_spec, write_hashes
from raypipe.stages.stage import Beat, Payload, Site
from raypipe.stages.tables import WholeStage
from raypipe.storage.payloads import ROW_GROUP_ROWS, read_table
from raypipe.storage.records import Shard
from raypipe.storage.store import Stored

ROW_BYTES = 26
"""Of each index: 24 bytes of an id while they are sorted, 28 of a text."""


def ids_stage(
    collection: Stored, dense: bool = False, inputs: Sequence[tuple[str, int]] = ()
) -> WholeStage:
    """The id index of passages or documents; refuses duplicate ids and checks dense ones.

    Of passages a second file has the hashes of their texts, by which rows are found again.

    Args:
        collection: the passages or documents. All their ids and hashes are sorted.
        dense: whether the ids must be 0 to n-1.
        inputs: what messages call a record of each file whose records are the rows, and how many
            it has.
    """

    def write(site: Site, shard: Shard, beat: Beat) -> Payload:
        if shard.index:
            return write_hashes(collection, site, shard, beat)

        def batches() -> Iterator[list[str]]:
            for batch in all_ids(collection):
                beat(())
                yield batch

        if dense:
            check_dense_ids(batches(), name="collection")
        path = site.scratch / "ids"
        rows, place = partial(ids_of_rows, collection), partial(_place, inputs)
        return Payload(
            path, {"rows": build_id_index(batches(), path, ids_of_rows=rows, place=place)}
        )

    spec = partial(ids_spec, collection, dense)
    files = 1 if holds_documents(collection) else 2
    return WholeStage(spec, collection, write, lambda rows, planned: ROW_BYTES * rows, files)


def _place(files: Sequence[tuple[str, int]], row: int) -> str:
    """The file and the number of a row's record in it, from 1."""
    for name, num_records in files:
        if row < num_records:
            return f"{name} {row + 1:,}"
        row -= num_records
    return f"row {row + 1:,}"


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
    ids: list[str] = []
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
            ids += values.take(distinct[position:end] - start).to_pylist()
            position = end
    return [ids[place] for place in inverse.tolist()]


def id_index(collection: Stored, ids: Stored) -> IdIndex:
    """The stored id index, which finds the rows of original ids."""
    path = ids.path(ids.manifest.records[0])
    return IdIndex(path, lambda rows: ids_of_rows(collection, rows))


COMPARED = 20
"""Queries whose texts are compared with the passages of their own ids."""


def own_rows(queries: Stored, collection: Stored, ids: Stored) -> NDArray[np.int64]:
    """The row of the passage that each query is, by its id, int64 [Q]; -1 if it is none.

    Numbers are often ids of both without meaning the same: all are -1 if none of the first such
    passages ends with its query's text.
    """
    table = queries.table(schema.QUERIES)
    rows: NDArray[np.int64] = id_index(collection, ids).rows_of(table["query_id"].to_pylist())
    first = np.flatnonzero(rows >= 0)[:COMPARED]
    texts = zip(
        table["text"].take(first).to_pylist(),
        column_of_rows(collection, rows[first], "text"),
        strict=True,
    )
    is_passage = any(query.strip() and passage.endswith(query) for query, passage in texts)
    return rows if is_passage else np.full(len(rows), -1)


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
