"""The document that a passage is part of, and the passages that a document has."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe import schema
from raypipe.stages.documents.windows import first_rows
from raypipe.stages.ids import hashes_of
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Expected,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
    sum_of,
)
from raypipe.storage.payloads import map_tensors, write_tensors
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

Int64 = NDArray[np.int64]
MAP_BYTES = 24


@dataclass(frozen=True)
class MapStage(Stage):
    """The map between passages and documents, from windows that were counted or homes given."""

    stored: Stored
    """The numbers of passages (WindowsStage), or the passages' homes (RecordsStage)."""
    given: bool

    @property
    def spec(self) -> StageSpec:
        """The store it is made from."""
        name = "homes" if self.given else "windows"
        return spec_over("map", 1, {"from": name}, {name: self.stored}, produces="map")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard, of all windows or homes: it sorts the passages."""
        return [Shard(0, 0, self.stored.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return MAP_BYTES * max(self.stored.num_rows, self._num_passages())

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: as if each given home were a document of its own."""
        facts = {"rows": self._num_passages(), "documents": self.stored.num_rows}
        return replace(super().expected(expectations), facts=facts)

    def _num_passages(self) -> int:
        return self.stored.num_rows if self.given else sum_of("passages", self.stored)

    def open(self, site: Site) -> Opened:
        """Open it: `document` and `window` of each passage, int32 [passages]; `passage`, int64
        [passages] by document and window, and where each document begins there, `first`."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        beat(())
        if self.given:
            document, by_window = self._of_homes(beat)
        else:
            edges = first_rows(self.stored)
            document = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
            by_window = np.arange(len(document))
        num_documents = int(document.max(initial=-1)) + 1
        first = np.searchsorted(document[by_window], np.arange(num_documents + 1))
        window = np.empty(len(document), np.int32)
        window[by_window] = np.arange(len(document)) - first[document[by_window]]
        arrays: dict[str, NDArray[Any]] = {
            "document": document.astype(np.int32),
            "window": window,
            "passage": by_window.astype(np.int64),
            "first": first.astype(np.int64),
        }
        path = scratch / "map.safetensors"
        write_tensors(path, arrays)
        return Payload(path, {"rows": len(document), "documents": num_documents})

    def _of_homes(self, beat: Beat) -> tuple[Int64, Int64]:
        """Each passage's document, in order of first appearance; passages by document and place.

        Ids are compared by 128 bits of SHA-256, as texts are.
        """
        hashes, begins = [], []
        for table in self.stored.tables(schema.HOMES):
            beat(())
            hashes.append(hashes_of(table["document_id"]))
            begins += [_begin(spans) for spans in table["spans"].to_pylist()]
        whole = np.concatenate([*hashes, np.empty((0, 2), np.uint64)])
        _, where, inverse = np.unique(whole, axis=0, return_index=True, return_inverse=True)
        place = np.empty(len(where), np.int64)
        place[np.argsort(where)] = np.arange(len(where))
        document = place[inverse.reshape(-1)]
        rows = np.arange(len(document))
        return document, np.lexsort((rows, np.array(begins, np.int64), document))


def _begin(spans: str) -> int:
    """The first byte of the first span of `(a,b),(c,d)`; 0 if there are none."""
    return int(spans[1:].partition(",")[0]) if spans else 0


class PassageMap:
    """The stored map, whose pages are read where they are needed."""

    def __init__(self, stored: Stored) -> None:
        """Maps the file; nothing is read yet."""
        arrays = map_tensors(stored.path(stored.manifest.records[0]))
        self._document, self._window = arrays["document"], arrays["window"]
        self._passage, self._first = arrays["passage"], arrays["first"]

    def documents(self, passage_rows: Int64) -> Int64:
        """The row of the document of each passage, int64 [N]."""
        return self._document[passage_rows].astype(np.int64)

    def windows(self, passage_rows: Int64) -> Int64:
        """The place of each passage in its document, from 0, int64 [N]."""
        return self._window[passage_rows].astype(np.int64)

    def passages(self, document_rows: Int64, at_most: int | None = None) -> tuple[Int64, Int64]:
        """The passages of these documents, in their order and by window.

        Args:
            document_rows: int64 [N].
            at_most: passages of each document, the first ones; None means all.

        Returns:
            (the place in `document_rows`, the passage row) of each, both int64.
        """
        first = self._first[document_rows]
        counts = self._first[document_rows + 1] - first
        if at_most is not None:
            counts = np.minimum(counts, at_most)
        places = np.repeat(np.arange(len(document_rows)), counts)
        inner = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, self._passage[first[places] + inner].astype(np.int64)
