"""The stage that splits documents into the passages of a collection."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.stages.documents.windows import first_rows, splitting_settings
from raypipe.stages.prepare import batched
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Expected,
    Opened,
    Payload,
    Rows,
    Sample,
    Site,
    Sizing,
    Stage,
    ranges,
    sum_of,
)
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.text.split import Splitting, passages_of

OVERLAP = 3
"""Approximate bytes of passages per compressed byte of documents."""


@dataclass(frozen=True)
class SplitStage(Stage):
    """Passages in the order of their documents; passage N of document ID has the id `ID#N`."""

    documents: Stored
    windows: Stored
    """Numbers of passages, see WindowsStage."""
    splitting: Splitting

    @property
    def spec(self) -> StageSpec:
        """The documents and how they are split."""
        params = splitting_settings(self.splitting)
        return spec_over("split", 1, params, {"documents": self.documents}, produces="passages")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of passages of about `shard_rows` that begin and end with a document."""
        edges = first_rows(self.windows)
        bounds = [0]
        while bounds[-1] < edges[-1]:
            after = int(np.searchsorted(edges, bounds[-1] + sizing.shard_rows, side="right")) - 1
            at_least = int(np.searchsorted(edges, bounds[-1], side="right"))
            bounds.append(int(edges[max(after, at_least)]))
        pairs = zip(bounds[:-1], bounds[1:], strict=True)
        return [Shard(i, start, stop) for i, (start, stop) in enumerate(pairs)] or [Shard(0, 0, 0)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return OVERLAP * self.documents.num_bytes * num_rows // max(1, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: the passages of a sample of the documents."""
        documents, number = expectations.sample(self.documents), sum_of("passages", self.windows)
        began = process_time()
        bodies = (passages_of("", "", body, self.splitting) for body in documents.texts)
        texts = [text for body in bodies for text in body]
        seconds = (process_time() - began) * documents.scale
        sample = Sample(texts, number, documents.id_bytes + len("#00"))
        return Expected(
            shards=ranges(number, expectations.sizing.shard_rows),
            num_bytes=sample.num_bytes,
            seconds=seconds,
            sample=sample,
            note="passages are counted without the words of titles and headings in front",
        )

    def open(self, site: Site) -> Opened:
        """Open it: the passages of a shard's documents."""
        return Opened(partial(self._run, site.scratch, first_rows(self.windows)))

    def _run(
        self, scratch: Path, edges: np.ndarray, shard: Shard, skip: Rows, beat: Beat
    ) -> Payload:
        start, stop = np.searchsorted(edges, [shard.start, shard.stop]).tolist()
        path = scratch / f"{shard.index}.parquet"
        blank = _Blank()
        passages = blank.counted(self._passages(start, stop))
        num_rows = write_table(path, schema.PASSAGES, batched(passages, schema.PASSAGES, beat))
        return Payload(path, {"rows": num_rows, "blank": blank.number})

    def _passages(self, start: int, stop: int) -> Iterator[tuple[str, str]]:
        """Id and text of every passage of documents [start, stop)."""
        for table in self.documents.tables(schema.DOCUMENTS, start, stop):
            for document_id, title, headings, body in _rows(table):
                texts = passages_of(title, headings, body, self.splitting)
                yield from ((f"{document_id}#{n}", text) for n, text in enumerate(texts))


@dataclass
class _Blank:
    """Counts passages without any word."""

    number: int = 0

    def counted(self, passages: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        for passage in passages:
            self.number += not passage[1].strip()
            yield passage


def _rows(table: pa.Table) -> Iterator[tuple[str, str, str, str]]:
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
