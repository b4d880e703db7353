"""Lucene under the ledger: one index of a collection, and BM25 searches of it by query block."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.stages.run_tables import run_table
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored
from raypipe.storage.tables import write_table

BATCH_ROWS = 8192


@dataclass
class IndexStage:
    """A Lucene index of a whole collection; BM25 needs the statistics of all of it, so one shard."""

    collection: Stored
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The collection and the version of what indexes it."""
        return StageSpec("index", 1, index_settings(), {"collection": self.collection.digest})

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One."""
        return [Shard(0, 0, self.collection.num_rows)]

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """The index folder packed into one file."""
        folder, packed = self._scratch / "index", self._scratch / "index.tar"
        build_index(self._batches(beat), folder)
        pack_folder(folder, packed)
        shutil.rmtree(folder)
        return Payload(packed, {"rows": shard.num_rows})

    def _batches(self, beat: Beat) -> Iterator[pa.Table]:
        for start in range(0, self.collection.num_rows, BATCH_ROWS):
            beat(())
            yield self.collection.table(schema.PASSAGES, start, start + BATCH_ROWS)
