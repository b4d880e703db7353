"""The stages of exact search: query blocks x spans of embeddings, then a merge by query block."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.stages.excluded import NOTHING, Excluded
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
)
from raypipe.stages.tables import LINE_BYTES, Sides, TableStage, expected_lines, query_blocks
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

VALUE_SECONDS = 4e-11
"""CPU time to multiply two values, on the machine of tests/benchmarks."""


@dataclass(frozen=True)
class PartsStage(Stage):
    """The best `depth` passages of each span of embedding shards, for each query block."""

    name: str
    embeddings: Stored
    queries: Stored
    depth: int
    excluded: Excluded = field(default=NOTHING, kw_only=True)

    @property
    def spec(self) -> StageSpec:
        """The embeddings of both sides, the depth, and what is excluded."""
        params = {"depth": self.depth, "name": self.name}
        stores = {"embeddings": self.embeddings, "queries": self.queries}
        stores |= self.excluded.stores()
        return spec_over("search-parts", 1, params, stores, produces="parts")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Every query block with every span; at most two spans per actor."""
        from raypipe.engines.exact_candidates import plan_spans

        shards = [record.shard for record in self.embeddings.manifest.records]
        spans = plan_spans(shards, sizing.num_actors)
        blocks = query_blocks(self.queries, sizing)
        pairs = [(span, block) for span in spans for block in blocks]
        return [
            Shard(i, block.start, block.stop, first, last)
            for i, ((first, last), block) in enumerate(pairs)
        ]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        pairs = self.embeddings.num_rows * self.queries.num_rows * num_rows // max(1, num_planned)
        return LINE_BYTES * min(self.depth * num_rows, pairs)

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: every query is multiplied with every passage."""
        shards = self.shards(expectations.sizing)
        lines = sum(min(self.depth, s.span_stop - s.span_start) * s.num_rows for s in shards)
        values = self.embeddings.num_bytes / 2  # fp16
        seconds = self.queries.num_rows * values * VALUE_SECONDS
        return expected_lines(shards, {"rows": lines}, seconds=seconds)

    def open(self, site: Site) -> Opened:
        """Open it: each payload is a run of a block's queries over a span's passages."""
        return Opened(partial(self._run, site))

    def _run(self, site: Site, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.stages.embeddings import query_vectors

        queries = query_vectors(self.queries, shard.start, shard.stop)
        blocks = self._blocks(shard, beat)
        lists = exact_lists(queries, blocks, depth=self.fetched(shard), site=site, beat=beat)
        return self.payload(site, shard, *lists)

    def fetched(self, shard: Shard) -> int:
        """How many places are fetched of each span, to fill `depth`."""
        return self.excluded.depth(self.depth, shard.start, shard.stop, self.embeddings.num_rows)

    def payload(
        self, site: Site, shard: Shard, rows: NDArray[np.int64], scores: NDArray[np.float32]
    ) -> Payload:
        """The run of a block's lists, without what is excluded."""
        cut = partial(self.excluded.cut, depth=self.depth)
        return lists_payload(site, shard, self.queries, rows, scores, scored_by=self.name, cut=cut)

    def _blocks(self, shard: Shard, beat: Beat) -> Iterator[tuple[int, NDArray[np.float16]]]:
        from raypipe.stages.embeddings import ranked_vectors

        for record, first, last in self.embeddings.overlapping(shard.span_start, shard.span_stop):
            beat(())
            yield from ranked_vectors(self.embeddings, record, first, last)


def merge_stage(name: str, parts: Stored, sides: Sides, depth: int) -> TableStage:
    """The run: for each query the best `depth` over all spans; the same for any number of them."""

    def block(shard: Shard) -> pa.Table:
        from raypipe.stages.run_tables import best, read_queries_of_run

        table = read_queries_of_run(parts, shard.start, shard.stop)
        return best(table, depth=depth, scored_by=name)

    stores = {"parts": parts} | sides.stores()
    spec = partial(spec_over, "search", 1, {"depth": depth}, stores, produces="run")
    lines = sides.queries.num_rows * min(depth, sides.collection.num_rows)
    return TableStage(name, spec, stores, block, lambda: lines)


def exact_lists(
    queries: NDArray[np.float16],
    blocks: Iterable[tuple[int, NDArray[np.float16]]],
    *,
    depth: int,
    site: Site,
    beat: Beat,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The exact best of each query, multiplied by torch on the worker's device and threads.

    See topk_block_stream.
    """
    from raypipe.engines.exact import topk_block_stream
    from raypipe.stages.products import TorchProducts, coarse_products

    return topk_block_stream(
        queries,
        blocks,
        depth=depth,
        products=TorchProducts(site.threads),
        coarse=coarse_products(site.device, site.threads),
        beat=at_most_once_a_second(beat),
    )


def lists_payload(
    site: Site,
    shard: Shard,
    queries: Stored,
    rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    *,
    scored_by: str,
    cut: Callable[[pa.Table], pa.Table],
    **facts: Json,
) -> Payload:
    """The run of a block's lists [Q, K], after `cut`; queries in quarantine get no line."""
    from raypipe.stages.run_tables import dense_table

    without = [q for q in queries.manifest.skipped_rows if shard.start <= q < shard.stop]
    rows[[query - shard.start for query in without]] = -1
    table = cut(dense_table(shard.start, rows, scores, scored_by=scored_by))
    path = site.scratch / f"{shard.index}.parquet"
    return Payload(path, {"rows": write_table(path, schema.RUN, [table]), **facts})


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
