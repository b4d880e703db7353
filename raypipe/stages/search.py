"""Exact search over embedding shards: query blocks x spans, then a merge by query block."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe import schema
from raypipe.search.exact.search import topk_block_stream
from raypipe.search.exact.spans import plan_spans
from raypipe.stages.run_tables import best, dense_table, read_queries_of_run
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Json, Record, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored


@dataclass
class PartsStage:
    """The best `depth` passages of each span of embedding shards, for each query block."""

    name: str
    embeddings: Stored
    queries: Stored
    depth: int
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """Both sides' embeddings and the depth."""
        inputs = {"embeddings": self.embeddings.digest, "queries": self.queries.digest}
        return StageSpec("search-parts", 1, {"depth": self.depth, "name": self.name}, inputs)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Every query block with every span; spans at most twice the actors."""
        spans = plan_spans(len(self.embeddings.manifest.records), sizing.num_actors)
        blocks = ranges(self.queries.num_rows, sizing.shard_queries)
        pairs = [(span, block) for span in spans for block in blocks]
        return [
            Shard(i, block.start, block.stop, first, last)
            for i, ((first, last), block) in enumerate(pairs)
        ]

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        import faiss

        faiss.omp_set_num_threads(site.threads)
        self._scratch = site.scratch
        return {"faiss": faiss.__version__}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """A run of the block's queries over the span's passages."""
        queries = _query_vectors(self.queries, shard.start, shard.stop)
        blocks = self._blocks(shard, beat)
        rows, scores = topk_block_stream(queries, blocks, depth=self.depth)
        without = [q for q in self.queries.manifest.skipped_rows if shard.start <= q < shard.stop]
        rows[[query - shard.start for query in without]] = -1
        table = dense_table(shard.start, rows, scores, scored_by=self.name)
        path = self._scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [table])})

    def _blocks(self, shard: Shard, beat: Beat) -> Iterator[tuple[int, NDArray[np.float16]]]:
        for record in self.embeddings.manifest.records[shard.span_start : shard.span_stop]:
            beat(())
            yield from self._ranked(record)

    def _ranked(self, record: Record) -> Iterator[tuple[int, NDArray[np.float16]]]:
        """A shard's vectors without those in quarantine, which hold zeros and are never ranked."""
        vectors, start = self.embeddings.vectors(record), record.shard.start
        edges = [r for r in self.embeddings.manifest.skipped_rows if start <= r < record.shard.stop]
        for low, high in zip([start - 1, *edges], [*edges, record.shard.stop], strict=True):
            if low + 1 < high:
                yield low + 1, vectors[low + 1 - start : high - start]


@dataclass
class MergeStage:
    """The run: for each query the best `depth` over all spans; the same for any number of them."""

    name: str
    parts: Stored
    num_queries: int
    depth: int
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The parts and the depth."""
        return StageSpec("search", 1, {"depth": self.depth}, {"parts": self.parts.digest})

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return ranges(self.num_queries, sizing.shard_queries)

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """The merged run of the block's queries."""
        beat(())
        table = read_queries_of_run(self.parts, shard.start, shard.stop)
        merged = best(table, depth=self.depth, scored_by=self.name)
        path = self._scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [merged])})


def _query_vectors(queries: Stored, start: int, stop: int) -> NDArray[np.float16]:
    parts = [
        queries.vectors(record)[first:last]
        for record, first, last in queries.overlapping(start, stop)
    ]
    return np.ascontiguousarray(np.concatenate(parts))
