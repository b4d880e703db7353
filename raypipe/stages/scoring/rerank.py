"""The stages that make runs and pairs by selecting from tables of scores."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.ranking.blend import Blend
from raypipe.ranking.candidates import Keys
from raypipe.ranking.rerank import aggregate_by_key, rerank_by_key
from raypipe.stages.query_blocks import (
    RUN_ROW_BYTES,
    Sides,
    num_lines,
    opened_blocks,
    query_blocks,
)
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.scoring.candidates import SCORE_BYTES, Part, find_scores, keys_of
from raypipe.stages.scoring.requests import Request
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over


@dataclass(frozen=True)
class RerankStage:
    """A run whose first k0 candidates are in a monoBERT model's order."""

    name: str
    run_store: Stored
    base: StageSpec
    request: Request
    tail: str
    sides: Sides
    parts: tuple[Part, ...] = ()
    needs: Needs = Needs()
    blend: Blend | None = None
    """None: candidates are ordered by the model's scores alone."""
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """What the scores depend on, the run, k0, tail and blend, but not the table's parts."""
        params = {**self.request.to_json(), "scores": self.base.without_derived()}
        params["tail"] = self.tail
        if self.blend is not None:
            params["blend"] = asdict(self.blend)
        stores = {"run": self.run_store} | self.sides.stores()
        return spec_over("rerank", 1, params, stores, produces="run")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return RUN_ROW_BYTES * num_lines(self.run_store)

    def open(self, site: Site) -> Opened:
        """See Stage; each block's run."""
        return opened_blocks(site, self._block)

    def _block(self, shard: Shard) -> pa.Table:
        run = read_queries_of_run(self.run_store, shard.start, shard.stop)
        wanted = self.request.keys(run)
        scores, failed = find_scores(
            self.parts, wanted, (shard.start, shard.stop), what=f"{self.name}, {shard}"
        )
        if self.blend is not None:
            scores = self.blend.of_run(run, wanted, scores, last=self.request.k)
        return rerank_by_key(
            run,
            wanted,
            scores,
            k=self.request.k,
            tail=self.tail,
            scored_by=self.name,
            failed=failed,
        )


@dataclass(frozen=True)
class PairsStage:
    """Every p(i, j) of a run's first k1 candidates, or of a draw of them."""

    name: str
    run_store: Stored
    base: StageSpec
    request: Request
    sides: Sides
    parts: tuple[Part, ...] = ()
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """What the probabilities depend on, the run and the request, but not the table's parts."""
        params = {**self.request.to_json(), "scores": self.base.without_derived()}
        stores = {"run": self.run_store} | self.sides.stores()
        return spec_over("pairs", 1, params, stores, produces="pairs")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return SCORE_BYTES * self.request.num_candidates(self.run_store)

    def open(self, site: Site) -> Opened:
        """See Stage; schema.SCORES of each block, sorted; pairs in quarantine are left out."""
        return opened_blocks(site, self._block, schema.SCORES)

    def _block(self, shard: Shard) -> tuple[pa.Table, dict[str, Json]]:
        run = read_queries_of_run(self.run_store, shard.start, shard.stop)
        return scored_pairs(self.parts, self.request.keys(run), shard, self.name)


def scored_pairs(
    parts: Sequence[Part], wanted: Keys, shard: Shard, name: str
) -> tuple[pa.Table, dict[str, Json]]:
    """The scores of a block's pairs (schema.SCORES), and how many of them are in quarantine."""
    queries = (shard.start, shard.stop)
    scores, failed = find_scores(parts, wanted, queries, what=f"{name}, {shard}")
    first, second, third = (column[~failed] for column in wanted)
    columns = [first.astype(np.int32), second, third, scores[~failed]]
    return pa.table(columns, schema=schema.SCORES), {"failed": int(failed.sum())}


@dataclass(frozen=True)
class AggregateStage:
    """A run whose first k1 candidates are ordered by their aggregated probabilities."""

    name: str
    run_store: Stored
    """The run from which the pairs were made."""
    pairs: Stored
    request: Request
    method: str
    tail: str
    sides: Sides
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The pairs, the run and the method; since 2, ties keep the order of the run."""
        params = {**self.request.to_json(), "method": self.method, "tail": self.tail}
        stores = {"run": self.run_store, "pairs": self.pairs} | self.sides.stores()
        return spec_over("aggregate", 2, params, stores, produces="run")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return RUN_ROW_BYTES * num_lines(self.run_store)

    def open(self, site: Site) -> Opened:
        """See Stage; each block's run.

        Its `run` raises InputError if pairs that the method needs are missing, with their number.
        """
        any_failed = any(record.facts["failed"] for record in self.pairs.manifest.records)
        return opened_blocks(site, partial(self._block, any_failed))

    def _block(self, any_failed: bool, shard: Shard) -> pa.Table:
        run = read_queries_of_run(self.run_store, shard.start, shard.stop)
        held = read_queries_of_run(self.pairs, shard.start, shard.stop, schema.SCORES)
        return aggregate_by_key(
            run,
            self.request.keys(run),
            keys_of(held),
            held["score"].to_numpy(),
            method=self.method,
            k=self.request.k,
            tail=self.tail,
            scored_by=self.name,
            some_failed=any_failed,
        )
