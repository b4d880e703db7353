"""The side store of a collection's texts: SHA-256 of each, and the row of each."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.payloads import map_tensors, write_tensors
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

Hashes = NDArray[np.uint64]
"""The first 16 bytes of SHA-256, as two numbers: uint64 [rows, 2]."""
Int64 = NDArray[np.int64]
BYTES_PER_ROW = 28


@dataclass(frozen=True)
class HashesStage:
    """A hash of each passage's text, and an index from hashes to rows."""

    collection: Stored
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The collection."""
        return spec_over("hashes", 1, {}, {"collection": self.collection}, produces="hashes")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard: it sorts all hashes, at 28 bytes each."""
        return [Shard(0, 0, self.collection.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return BYTES_PER_ROW * num_rows

    def open(self, site: Site) -> Opened:
        """See Stage; `hashes` uint64 [rows, 2], `sorted` uint64 [rows] and `rows` [rows]."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        hashes = np.empty((shard.num_rows, 2), np.uint64)
        start = 0
        for table in self.collection.tables(schema.PASSAGES):
            beat(())
            hashes[start : start + len(table)] = hashes_of(table["text"])
            start += len(table)
        path = scratch / "hashes.safetensors"
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
        """Maps the file; nothing is read yet."""
        arrays = map_tensors(stored.path(stored.manifest.records[0]))
        self.hashes: Hashes = arrays["hashes"]
        self._sorted, self._rows = arrays["sorted"], arrays["rows"]

    def first_rows(self, hashes: Hashes) -> Int64:
        """The first row with each hash, int64 [n]; -1 if there is none."""
        found = np.full(len(hashes), -1, np.int64)
        waiting = np.arange(len(hashes))
        places = np.searchsorted(self._sorted, hashes[:, 0])
        while len(waiting):  # a second turn only if two texts agree in 64 bits
            inside = places < len(self._sorted)
            waiting, places = waiting[inside], places[inside]
            same = self._sorted[places] == hashes[waiting, 0]
            waiting, places = waiting[same], places[same]
            rows = self._rows[places].astype(np.int64)
            whole = self.hashes[rows, 1] == hashes[waiting, 1]
            found[waiting[whole]] = rows[whole]
            waiting, places = waiting[~whole], places[~whole] + 1
        return found
