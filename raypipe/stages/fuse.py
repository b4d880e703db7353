"""Several runs of one query set as one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raypipe import schema
from raypipe.ranking.fuse import fuse_tables
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored
from raypipe.vocabulary import RRF_K


@dataclass
class FuseStage:
    """See ranking.fuse for the methods and their equations."""

    name: str
    runs: Mapping[str, Stored]
    """In the recipe's order, which `alternate` and `weighted` follow."""
    num_queries: int
    method: str
    depth: int
    weights: Sequence[float] | None = None
    k: float | None = None
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The runs in order, the method and its settings."""
        params: dict[str, Json] = {"method": self.method, "depth": self.depth}
        params["order"] = list(self.runs)
        if self.method == "weighted":
            params["weights"] = list(self.weights) if self.weights else None
        if self.method == "rrf":
            params["k"] = self.k
        return StageSpec("fuse", 1, params, {name: run.digest for name, run in self.runs.items()})

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return ranges(self.num_queries, sizing.shard_queries)

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """The fused run of the block's queries."""
        beat(())
        fused = fuse_tables(
            [read_queries_of_run(run, shard.start, shard.stop) for run in self.runs.values()],
            method=self.method,
            scored_by=self.name,
            weights=self.weights if self.method == "weighted" else None,
            k=RRF_K if self.k is None else self.k,
            depth=self.depth,
        )
        path = self._scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, schema.RUN, [fused])})
