"""Runs and pairs as selections from tables of scores."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.aggregate import aggregate
from raypipe.ranking.candidates import positions
from raypipe.ranking.rerank import rerank
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.scoring.candidates import Part, Request, find_scores, keys_of
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored


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
        places = positions(_lines(run), wanted)
        found = rerank(
            run,
            np.where(places >= 0, _at(scores, places), np.nan).astype(np.float32),
            k=self.request.k,
            tail=self.tail,
            scored_by=self.name,
            failed=(places >= 0) & (_at(failed, places) > 0),
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
        wanted = self.request.keys(run)
        places = positions(wanted, keys_of(held))
        lacking = int((places < 0).sum())
        if lacking and not self._any_failed:
            raise InputError(
                f"{self.name}: {lacking} of {len(places)} pairs that {self.method} needs were "
                "not scored; score them first, or aggregate what was (k1, sample and seed as "
                "the pairs were made with): a missing pair is never made up"
            )
        found = places >= 0
        first, second, third = (column[found] for column in wanted)
        probabilities = held["score"].to_numpy()[places[found]]
        queries, rows, sums = aggregate((first, second, third), probabilities, method=self.method)
        lone = np.full(len(rows), -1, np.int64)
        at = positions(_lines(run), (queries, rows, lone))
        ranked = rerank(
            run,
            np.where(at >= 0, _at(sums, at), 0).astype(np.float32),  # a lone candidate has no pair
            k=self.request.k,
            tail=self.tail,
            scored_by=self.name,
            failed=(at < 0) & np.isin(run["query_row"].to_numpy(), wanted[0]),
        )
        path = self._scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [ranked])})


def _lines(run: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A run's lines as keys of a mono."""
    queries = run["query_row"].to_numpy().astype(np.int64)
    return queries, run["passage_row"].to_numpy(), np.full(len(queries), -1, np.int64)


def _at(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """values[places], anything where a place is -1."""
    return values[places] if len(values) else np.zeros(len(places), values.dtype)
