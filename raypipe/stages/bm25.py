"""The stages of Lucene: the index of a collection, and BM25 searches by query block."""

import shutil
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.engines.lucene.index import (
    ENGLISH,
    build_index,
    index_settings,
    pack_folder,
    unpack_folder,
)
from raypipe.engines.lucene.search import (
    Feedback,
    Lines,
    LuceneSearcher,
    search_all,
)
from raypipe.stages.excluded import NOTHING, Excluded
from raypipe.stages.run_tables import run_table
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Expected,
    Needs,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
)
from raypipe.stages.tables import (
    LINE_BYTES,
    LINE_SECONDS,
    Sides,
    expected_lines,
    opened_blocks,
    query_blocks,
)
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

LUCENE_BYTES = 3
"""Bytes of the Lucene folder and its packed copy per byte of stored passages."""
INDEX_BYTES, TEXT_BYTES, PASSAGE_BYTES = 45_000, 1.282, 87.4
"""Of a packed index: whatever is in it, for a byte of text and for a passage."""
INDEX_SECONDS, TEXT_SECONDS = 3.3, 1.5e-6
SEARCH_SECONDS, BM25_LINE_SECONDS = 0.1, 1.7e-5
"""CPU time on the machine of tests/benchmarks: to index (at all, and a byte of text), and to search
(at all, and a line)."""


@dataclass(frozen=True)
class IndexStage(Stage):
    """A Lucene index, in one shard, as BM25 needs the statistics of the whole collection."""

    collection: Stored
    language: str = ENGLISH
    """One of `vocabulary.Language`."""

    @property
    def spec(self) -> StageSpec:
        """The collection, its language, and the version of the indexing."""
        stores = {"collection": self.collection}
        return spec_over("index", 2, index_settings(self.language), stores, produces="lucene")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.collection.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """Bytes that include the folder and its packed copy."""
        return LUCENE_BYTES * self.collection.num_bytes * num_rows // max(1, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: the packed index alone, by the length of its texts."""
        text_bytes = expectations.sample(self.collection).text_bytes
        return Expected(
            shards=self.shards(expectations.sizing),
            num_bytes=INDEX_BYTES
            + TEXT_BYTES * text_bytes
            + PASSAGE_BYTES * self.collection.num_rows,
            seconds=INDEX_SECONDS + TEXT_SECONDS * text_bytes,
        )

    def open(self, site: Site) -> Opened:
        """Open it: the payload is the index folder packed into one file."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        folder, packed = scratch / "index", scratch / "index.tar"
        num_indexed = build_index(
            lambda: self._batches(beat), folder, language=self.language, beat=lambda: beat(())
        )
        pack_folder(folder, packed)
        shutil.rmtree(folder)
        return Payload(packed, {"rows": shard.num_rows, "indexed": num_indexed})

    def _batches(self, beat: Beat) -> Iterator[pa.Table]:
        for table in self.passages():
            beat(())
            yield table

    def passages(self) -> Iterator[pa.Table]:
        """The indexed passages, schema.PASSAGES, in row order; read twice."""
        return self.collection.tables(schema.PASSAGES)


class LuceneSearchStage(Stage):
    """A search of a Lucene index by query block, whatever gives the scores."""

    name: str
    sides: Sides
    index: Stored
    depth: int
    excluded: Excluded
    needs = Needs(jvm=True)

    @abstractmethod
    def lines(self, searcher: LuceneSearcher, shard: Shard, depth: int) -> Lines:
        """The first `depth` that each query of a block finds; the block's first is at position
        0."""

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return LINE_BYTES * min(self.depth, self.index.num_rows) * num_rows

    def expected(self, expectations: Expectations) -> Expected:
        """Lines and seconds of the search."""
        lines = self.sides.queries.num_rows * min(self.depth, self.index.num_rows)
        seconds = SEARCH_SECONDS + lines * (BM25_LINE_SECONDS - LINE_SECONDS)
        shards = self.shards(expectations.sizing)
        return expected_lines(shards, {"rows": lines}, seconds=seconds)

    def open(self, site: Site) -> Opened:
        """Open it: unpacks the index into scratch, then computes each block's run."""
        searcher = open_index(self.index, site.scratch / "index")
        return opened_blocks(site, partial(self._block, searcher), close=searcher.close)

    def _block(self, searcher: LuceneSearcher, shard: Shard) -> pa.Table:
        most = self.index.num_rows  # Lucene's numbers have 32 bits
        depth = self.excluded.depth(self.depth, shard.start, shard.stop, most)
        positions, rows, scores = self.lines(searcher, shard, depth)
        table = run_table(positions + shard.start, rows, scores, scored_by=self.name)
        return self.excluded.cut(table, self.depth)


@dataclass(frozen=True)
class Bm25Stage(LuceneSearchStage):
    """The best `depth` passages of each query by BM25, as Lucene scores it."""

    name: str
    sides: Sides
    index: Stored
    k1: float
    b: float
    depth: int
    rm3: Feedback | None = None
    """Its words may be those of excluded passages, as in Anserini."""
    excluded: Excluded = NOTHING

    @property
    def spec(self) -> StageSpec:
        """The index, the queries, what they exclude and the parameters of the search."""
        params: dict[str, Json] = {"k1": self.k1, "b": self.b}
        params |= {"depth": self.depth, "name": self.name}
        if self.rm3 is not None:
            params["rm3"] = self.rm3.to_json()
        stores = {"index": self.index} | self.sides.stores() | self.excluded.stores()
        return spec_over("bm25", 1, params, stores, produces="run")

    def lines(self, searcher: LuceneSearcher, shard: Shard, depth: int) -> Lines:
        """The lines of a block's queries; see LuceneSearchStage."""
        queries = self.sides.queries.table(schema.QUERIES, shard.start, shard.stop)
        texts = queries["text"].to_pylist()
        return search_all(searcher, texts, k1=self.k1, b=self.b, depth=depth, rm3=self.rm3)


def open_index(index: Stored, folder: Path) -> LuceneSearcher:
    """A searcher of the stored index, unpacked into `folder`.

    Its documents are the passages of their rows: the build compared every id, and the payload is
    verified like any other.
    """
    unpack_folder(index.path(index.manifest.records[0]), folder)
    return LuceneSearcher(folder)
