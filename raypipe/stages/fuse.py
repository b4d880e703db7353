"""The stage that fuses several runs of a query set into one, or cuts a single one."""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from raypipe.ranking.fuse import fuse_tables
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.tables import Sides, TableStage, num_lines
from raypipe.storage.records import Json, Shard
from raypipe.storage.store import Stored, spec_over


def fuse_stage(
    name: str,
    runs: Mapping[str, Stored],
    sides: Sides,
    method: str | None,
    depth: int,
    weights: Sequence[float] | None = None,
    k: float | None = None,
) -> TableStage:
    """The stage of a fused run; ranking.fuse has the methods and their equations.

    Args:
        name: of the fused run.
        runs: in the recipe's order, which `alternate` and `weighted` follow.
        sides: the queries, and the passages or documents.
        method: alternate, rrf, weighted or average; None cuts a single run.
        depth: number of candidates that are kept of each query.
        weights: by run, of `weighted` alone.
        k: of `rrf` alone.
    """
    settings: dict[str, Json] = {}
    if method == "weighted":
        settings["weights"] = list(weights) if weights else None
    if method == "rrf":
        settings["k"] = k
    params: dict[str, Json] = {"method": method, "depth": depth, "order": list(runs)}
    stores = {f"run.{each}": run for each, run in runs.items()} | sides.stores()
    spec = partial(spec_over, "fuse", 1, params | settings, stores, produces="run")

    def block(shard: Shard) -> pa.Table:
        return fuse_tables(
            [read_queries_of_run(run, shard.start, shard.stop) for run in runs.values()],
            method=method,
            scored_by=name,
            weights=weights if method == "weighted" else None,
            k=k if method == "rrf" else None,
            depth=depth,
        )

    def most() -> int:
        lines = sum(num_lines(run) for run in runs.values())
        return min(depth * sides.queries.num_rows, lines)

    return TableStage(name, spec, stores, block, most)
