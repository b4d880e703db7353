"""Rows by original ids and by hashes of texts: the stage of both indexes, and how they are read."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.ids import IdIndex, build_id_index, check_dense_ids
from raypipe.names import Role, of_collection
from raypipe.stages.stage import Beat, Payload, Site
from raypipe.stages.tables import WholeStage
from raypipe.storage.payloads import ROW_GROUP_ROWS, map_tensors, read_table, write_tensors
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

Hashes = NDArray[np.uint64]
"""The first 16 bytes of SHA-256, as two numbers: uint64 [rows, 2]."""
Int64 = NDArray[np.int64]


def ids_spec(collection: Stored, dense: bool) -> StageSpec:
    """The specification of the id index of passages or documents."""
    return spec_over("ids", 2, {"dense": dense}, {"collection": collection}, produces="ids")


def write_hashes(collection: Stored, site: Site, shard: Shard, beat: Beat) -> Payload:
    """A hash of each passage's text, and an index from hashes to rows; it sorts all hashes.

    The file: `hashes` uint64 [rows, 2], `sorted` uint64 [rows] and `rows` [rows].
    """
    hashes = np.empty((shard.num_rows, 2), np.uint64)
    start = 0
    for table in collection.tables(schema.PASSAGES):
        beat(())
        hashes[start : start + len(table)] = hashes_of(table["text"])
        start += len(table)
    path = site.scratch / "hashes.safetensors"
    write_tensors(path, _arrays(hashes))
    return Payload(path, {"rows": shard.num_rows})


def _arrays(hashes: Hashes) -> dict[str, NDArray[Any]]:
    """The arrays of a payload."""
    order = np.argsort(hashes[:, 0], kind="stable")  # equal ones by ascending row
    narrow = np.uint32 if len(order) < 1 << 32 else np.uint64
    return {"hashes": hashes, "sorted": hashes[order, 0], "rows": order.astype(narrow)}


def hashes_of(texts: pa.ChunkedArray) -> Hashes:
    """The hash of each text's UTF-8 bytes."""
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:16] for text in texts.to_pylist())
    return np.frombuffer(digests, "<u8").reshape(-1, 2)


class TextHashes:
    """The stored hashes of a collection, mapped."""

    def __init__(self, stored: Stored) -> None:
        """Maps the file, the last one beside the id index; nothing is read yet."""
        arrays = map_tensors(stored.path(stored.manifest.records[-1]))
        self.hashes: Hashes = arrays["hashes"]
        self._sorted, self._rows = arrays["sorted"], arrays["rows"]

    def first_rows(self, hashes: Hashes) -> Int64:
        """The first row with each hash, int64 [n]; -1 if there is none."""
        first = np.full(len(hashes), -1, np.int64)
        waiting = np.arange(len(hashes))
        places = np.searchsorted(self._sorted, hashes[:, 0])
        while len(waiting):  # a second turn only if two texts agree in 64 bits
            inside = places < len(self._sorted)
            waiting, places = waiting[inside], places[inside]
            same = self._sorted[places] == hashes[waiting, 0]
            waiting, places = waiting[same], places[same]
            rows = self._rows[places].astype(np.int64)
            whole = self.hashes[rows, 1] == hashes[waiting, 1]
            first[waiting[whole]] = rows[whole]
            waiting, places = waiting[~whole], places[~whole] + 1
        return first

    def copies(self) -> Int64:
        """The rows whose text an earlier row has too, with the first row that has it.

        int64 [2, n], by row. It reads all sorted hashes once, and of equal ones alone the rows.
        """
        from raypipe.ranking.order import begins

        again = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        rows = self._rows[np.union1d(again, again + 1)].astype(np.int64)
        whole = self.hashes[rows]
        order = np.lexsort((rows, whole[:, 1], whole[:, 0]))
        rows, is_first = rows[order], begins(whole[order, 0], whole[order, 1])
        firsts = rows[is_first][np.cumsum(is_first) - 1]
        pairs = np.stack([rows, firsts])[:, ~is_first]
        return pairs[:, np.argsort(pairs[0])]


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
            ids += values.take(schema.numbers(distinct[position:end] - start)).to_pylist()
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
