"""The hashes of a collection's texts: SHA-256 of each, and the row of each."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.stages.stage import Beat, Payload, Site
from raypipe.storage.payloads import map_tensors, write_tensors
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
    found = b"".join(hashlib.sha256(text.encode()).digest()[:16] for text in texts.to_pylist())
    return np.frombuffer(found, "<u8").reshape(-1, 2)


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
