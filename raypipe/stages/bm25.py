"""Lucene under the ledger: one index of a collection, and BM25 searches of it by query block."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.search.lucene.check import check_index
from raypipe.search.lucene.index import build_index, index_settings
from raypipe.search.lucene.pack import pack_folder, unpack_folder
from raypipe.search.lucene.search import LuceneSearcher, search_all
from raypipe.stages.run_tables import run_table
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.stages.texts.ids import ids_of_rows
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored

BATCH_ROWS = 8192


@dataclass
class IndexStage:
    """A Lucene index; BM25 needs the statistics of the whole collection, so it is one shard."""

    collection: Stored
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The collection and the version of what indexes it; since 2, in row order."""
        return StageSpec("index", 2, index_settings(), {"collection": self.collection.digest})

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
        num_indexed = build_index(lambda: self._batches(beat), folder, beat=lambda: beat(()))
        pack_folder(folder, packed)
        shutil.rmtree(folder)
        return Payload(packed, {"rows": shard.num_rows, "indexed": num_indexed})

    def _batches(self, beat: Beat) -> Iterator[pa.Table]:
        for start in range(0, self.collection.num_rows, BATCH_ROWS):
            beat(())
            stop = min(start + BATCH_ROWS, self.collection.num_rows)
            yield self.collection.table(schema.PASSAGES, start, stop)


@dataclass
class Bm25Stage:
    """The best `depth` passages of each query by BM25, as Lucene scores it."""

    name: str
    collection: Stored
    index: Stored
    queries: Stored
    k1: float
    b: float
    depth: int
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """Index, queries and the parameters of the search."""
        params = {"k1": self.k1, "b": self.b, "depth": self.depth, "name": self.name}
        inputs = {"index": self.index.digest, "queries": self.queries.digest}
        return StageSpec("bm25", 1, params, inputs)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return ranges(self.queries.num_rows, sizing.shard_queries)

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage; unpacks the index into this worker's scratch."""
        self._scratch = site.scratch
        self._searcher = open_index(self.index, self.collection, site.scratch / "index")
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """The run of the block's queries."""
        beat(())
        texts = self.queries.table(schema.QUERIES, shard.start, shard.stop)["text"].to_pylist()
        positions, rows, scores = search_all(
            self._searcher, texts, k1=self.k1, b=self.b, depth=self.depth
        )
        table = run_table(positions + shard.start, rows, scores, scored_by=self.name)
        path = self._scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [table])})


def open_index(index: Stored, collection: Stored, folder: Path) -> LuceneSearcher:
    """A searcher of the stored index, unpacked into `folder`, its order checked.

    Raises:
        CorruptError: documents are not the passages of their rows; see check_index.
    """
    unpack_folder(index.path(index.manifest.records[0]), folder)
    searcher = LuceneSearcher(folder)
    manifest = index.manifest
    name = f"{index.storage.uri}/{manifest.store}/{manifest.fingerprint}"
    check_index(searcher, name, collection.num_rows, lambda rows: ids_of_rows(collection, rows))
    return searcher
