"""The stages of exact search: query blocks x spans of embeddings, then a merge by query block."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.engines.exact.spans import plan_spans
from raypipe.stages.query_blocks import RUN_ROW_BYTES, Sides, opened_blocks, query_blocks
from raypipe.stages.run_tables import best, dense_table, read_queries_of_run
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Record, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored, spec_over


@dataclass(frozen=True)
class PartsStage:
    """The best `depth` passages of each span of embedding shards, for each query block."""

    name: str
    embeddings: Stored
    queries: Stored
    depth: int
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The embeddings of both sides, and the depth."""
        params = {"depth": self.depth, "name": self.name}
        stores = {"embeddings": self.embeddings, "queries": self.queries}
        return spec_over("search-parts", 1, params, stores, produces="parts")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Every query block with every span; at most two spans per actor."""
        shards = [record.shard for record in self.embeddings.manifest.records]
        spans = plan_spans(shards, sizing.num_actors)
        blocks = query_blocks(self.queries, sizing)
        pairs = [(span, block) for span in spans for block in blocks]
        return [
            Shard(i, block.start, block.stop, first, last)
            for i, ((first, last), block) in enumerate(pairs)
        ]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return RUN_ROW_BYTES * self.depth * num_rows

    def open(self, site: Site) -> Opened:
        """See Stage; each payload is a run of a block's queries over a span's passages."""
        return Opened(partial(self._run, site))

    def _run(self, site: Site, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.engines.exact.search import topk_block_stream
        from raypipe.stages.products import TorchProducts

        queries = query_vectors(self.queries, shard.start, shard.stop)
        rows, scores = topk_block_stream(
            queries,
            self._blocks(shard, beat),
            depth=self.depth,
            products=TorchProducts(site.threads),
            beat=at_most_once_a_second(beat),
        )
        without = [q for q in self.queries.manifest.skipped_rows if shard.start <= q < shard.stop]
        rows[[query - shard.start for query in without]] = -1
        table = dense_table(shard.start, rows, scores, scored_by=self.name)
        path = site.scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [table])})

    def _blocks(self, shard: Shard, beat: Beat) -> Iterator[tuple[int, NDArray[np.float16]]]:
        for record, first, last in self.embeddings.overlapping(shard.span_start, shard.span_stop):
            beat(())
            yield from ranked_vectors(self.embeddings, record, first, last)


@dataclass(frozen=True)
class MergeStage:
    """The run: for each query the best `depth` over all spans; the same for any number of them."""

    name: str
    parts: Stored
    sides: Sides
    depth: int
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The parts and the depth."""
        stores = {"parts": self.parts} | self.sides.stores()
        return spec_over("search", 1, {"depth": self.depth}, stores, produces="run")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return RUN_ROW_BYTES * self.depth * num_rows

    def open(self, site: Site) -> Opened:
        """See Stage; each block's merged run."""
        return opened_blocks(site, self._block)

    def _block(self, shard: Shard) -> pa.Table:
        table = read_queries_of_run(self.parts, shard.start, shard.stop)
        return best(table, depth=self.depth, scored_by=self.name)


def ranked_vectors(
    embeddings: Stored, record: Record, first: int, last: int
) -> Iterator[tuple[int, NDArray[np.float16]]]:
    """Vectors [first, last) of a shard without those in quarantine, which are never ranked.

    Each range of them comes with the passage row of its first vector.
    """
    vectors, start = embeddings.vectors(record), record.shard.start
    skipped = [row - start for row in embeddings.manifest.skipped_rows]
    edges = [row for row in skipped if first <= row < last]
    for low, high in zip([first - 1, *edges], [*edges, last], strict=True):
        if low + 1 < high:
            yield start + low + 1, vectors[low + 1 : high]


def at_most_once_a_second(beat: Beat) -> Callable[[], None]:
    """A heartbeat without rows; a search of many queries takes longer than a beat may wait."""
    last = 0.0

    def beaten() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 1.0:
            last = now
            beat(())

    return beaten


def query_vectors(queries: Stored, start: int, stop: int) -> NDArray[np.float16]:
    """The embeddings of query rows [start, stop), fp16 [Q, D]."""
    parts = [
        queries.vectors(record)[first:last]
        for record, first, last in queries.overlapping(start, stop)
    ]
    return np.ascontiguousarray(np.concatenate(parts))
