"""Texts of a store in ascending order of rows, each row group decoded once."""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.storage.payloads import ROW_GROUP_ROWS, read_table
from raypipe.storage.store import Stored

Int64 = NDArray[np.int64]
Strings: TypeAlias = "pa.StringArray | pa.ChunkedArray"


class TextReader:
    """Reads the column `text` of a store; the last row group read stays in memory."""

    def __init__(self, stored: Stored, columns: pa.Schema) -> None:
        """Reads nothing yet; `columns` is the schema of the store."""
        self._stored, self._columns = stored, columns
        shards = [record.shard for record in stored.manifest.records]
        groups = [np.arange(shard.start, shard.stop, ROW_GROUP_ROWS) for shard in shards]
        self._starts = np.concatenate([np.empty(0, np.int64), *groups])
        self._held: tuple[int, Strings] = (-1, pa.array([], pa.string()))

    def batches(self, rows: Int64, size: int) -> Iterator[Int64]:
        """The rows, ascending, in parts of at most `size` that lie in one row group each."""
        groups = self._groups(rows)
        edges = np.flatnonzero(np.diff(groups, prepend=-1, append=len(self._starts)))
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            for first in range(start, stop, size):
                yield rows[first : min(first + size, stop)]

    def texts(self, batch: Int64) -> Strings:
        """The texts of some rows of one row group, in the order given."""
        group = int(self._groups(batch[:1])[0])
        if group != self._held[0]:
            self._held = (group, self._read(int(self._starts[group])))
        return self._held[1].take(pa.array(batch - self._starts[group]))

    def _groups(self, rows: Int64) -> Int64:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _read(self, start: int) -> Strings:
        record, first, _ = next(self._stored.overlapping(start, start + 1))
        path = self._stored.path(record)
        stop = first + ROW_GROUP_ROWS
        return read_table(path, self._columns, start=first, stop=stop, columns=["text"])["text"]
