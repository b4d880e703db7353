"""The stage that fuses several runs of a query set into one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from raypipe.ranking.fuse import fuse_tables
from raypipe.stages.query_blocks import RUN_ROW_BYTES, Sides, opened_blocks, query_blocks
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over


@dataclass(frozen=True)
class FuseStage:
    """See ranking.fuse for the methods and their equations."""

    name: str
    runs: Mapping[str, Stored]
    """The runs in the recipe's order, which `alternate` and `weighted` follow."""
    sides: Sides
    method: str
    depth: int
    weights: Sequence[float] | None = None
    k: float | None = None
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The runs in order, the method and its settings."""
        params: dict[str, Json] = {"method": self.method, "depth": self.depth}
        params["order"] = list(self.runs)
        if self.method == "weighted":
            params["weights"] = list(self.weights) if self.weights else None
        if self.method == "rrf":
            params["k"] = self.k
        stores = {f"run.{name}": run for name, run in self.runs.items()} | self.sides.stores()
        return spec_over("fuse", 1, params, stores, produces="run")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return RUN_ROW_BYTES * self.depth * num_rows

    def open(self, site: Site) -> Opened:
        """See Stage; each block's fused run."""
        return opened_blocks(site, self._block)

    def _block(self, shard: Shard) -> pa.Table:
        return fuse_tables(
            [read_queries_of_run(run, shard.start, shard.stop) for run in self.runs.values()],
            method=self.method,
            scored_by=self.name,
            weights=self.weights if self.method == "weighted" else None,
            k=self.k if self.method == "rrf" else None,
            depth=self.depth,
        )
