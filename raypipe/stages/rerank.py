"""Runs and pairs as selections from tables of scores."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.ranking.by_key import aggregate_by_key, rerank_by_key
from raypipe.stages.candidates import Part, Request, find_scores, keys_of
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored
from raypipe.storage.tables import write_table


@dataclass
class RerankStage:
    """A run whose first k0 candidates stand in a mono model's order."""

    name: str
    run_store: Stored
    base: StageSpec
    request: Request
    tail: str
    num_queries: int
    parts: tuple[Part, ...] = ()
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """What the scores depend on, the run, k0 and the tail; no part of the table."""
        params = {**self.request.to_json(), "tail": self.tail, "scores": self.base.to_json()}
        return StageSpec("rerank", 1, params, {"run": self.run_store.digest})

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return ranges(self.num_queries, sizing.shard_queries)

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """schema.RUN of the block's queries."""
        beat(())
        run = read_queries_of_run(self.run_store, shard.start, shard.stop)
        wanted = self.request.keys(run)
        scores, failed = find_scores(
            self.parts, wanted, (shard.start, shard.stop), what=f"{self.name}, {shard}"
        )
        found = rerank_by_key(
            run,
            wanted,
            scores,
            k=self.request.k,
            tail=self.tail,
            scored_by=self.name,
            failed=failed,
        )
        path = self._scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [found])})


@dataclass
class PairsStage:
    """Every p(i, j) of a run's first k1 candidates, or those of a draw."""

    name: str
    run_store: Stored
    base: StageSpec
    request: Request
    num_queries: int
    parts: tuple[Part, ...] = ()
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """What the probabilities depend on, the run and the request; no part of the table."""
        params = {**self.request.to_json(), "scores": self.base.to_json()}
        return StageSpec("pairs", 1, params, {"run": self.run_store.digest})

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return ranges(self.num_queries, sizing.shard_queries)

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """schema.SCORES of the block's queries, sorted; pairs in quarantine are left out."""
        beat(())
        run = read_queries_of_run(self.run_store, shard.start, shard.stop)
        wanted = self.request.keys(run)
        scores, failed = find_scores(
            self.parts, wanted, (shard.start, shard.stop), what=f"{self.name}, {shard}"
        )
        first, second, third = (column[~failed] for column in wanted)
        columns = [first.astype(np.int32), second, third, scores[~failed]]
        path = self._scratch / f"{shard.index}.parquet"
        table = pa.table(columns, schema=schema.SCORES)
        facts = {"rows": write_table(path, schema.SCORES, [table]), "failed": int(failed.sum())}
        return Payload(path, facts)


@dataclass
class AggregateStage:
    """A run whose first k1 candidates stand in the order of their aggregated probabilities."""

    name: str
    run_store: Stored
    """The run that the pairs were taken from."""
    pairs: Stored
    request: Request
    method: str
    tail: str
    num_queries: int
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The pairs, the run and the method."""
        params = {**self.request.to_json(), "method": self.method, "tail": self.tail}
        inputs = {"run": self.run_store.digest, "pairs": self.pairs.digest}
        return StageSpec("aggregate", 1, params, inputs)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return ranges(self.num_queries, sizing.shard_queries)

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        self._any_failed = any(r.facts["failed"] for r in self.pairs.manifest.records)
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """schema.RUN of the block's queries.

        Raises:
            InputError: pairs that the method needs are not there; their number is named.
        """
        beat(())
        run = read_queries_of_run(self.run_store, shard.start, shard.stop)
        held = read_queries_of_run(self.pairs, shard.start, shard.stop, schema.SCORES)
        ranked = aggregate_by_key(
            run,
            self.request.keys(run),
            keys_of(held),
            held["score"].to_numpy(),
            method=self.method,
            k=self.request.k,
            tail=self.tail,
            scored_by=self.name,
            some_failed=self._any_failed,
        )
        path = self._scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [ranked])})
