"""The documents of a collection whose passages were given: their ids, without texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from raypipe import schema
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.stages.ids import column_of_rows
from raypipe.stages.prepare import batched
from raypipe.stages.stage import Beat, Opened, Payload, Rows, Site, Sizing, Stage, ranges
from raypipe.storage.payloads import ROW_GROUP_ROWS, write_table
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

ID_BYTES = 16


@dataclass(frozen=True)
class NamedDocumentsStage(Stage):
    """Documents (schema.DOCUMENTS) in the order in which the passages first name them."""

    homes: Stored
    map: Stored

    @property
    def spec(self) -> StageSpec:
        """The homes and the map."""
        stores = {"homes": self.homes, "map": self.map}
        return spec_over("named-documents", 1, {}, stores, produces="documents")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of documents."""
        return ranges(int(self.map.manifest.records[0].facts["documents"]), sizing.shard_rows)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return ID_BYTES * num_rows

    def open(self, site: Site) -> Opened:
        """Open it: title, headings and body are empty."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        path = scratch / f"{shard.index}.parquet"
        rows = batched(self._rows(shard), schema.DOCUMENTS, beat)
        return Payload(path, {"rows": write_table(path, schema.DOCUMENTS, rows)})

    def _rows(self, shard: Shard) -> Iterator[tuple[str, str, str, str]]:
        passage_map = PassageMap(self.map)
        for start in range(shard.start, shard.stop, ROW_GROUP_ROWS):
            documents = np.arange(start, min(start + ROW_GROUP_ROWS, shard.stop))
            _, passages = passage_map.passages(documents, at_most=1)
            for document_id in column_of_rows(self.homes, passages, "document_id", schema.HOMES):
                yield document_id, "", "", ""
