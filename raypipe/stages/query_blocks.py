"""What stages share that write one table for each block of queries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from raypipe import schema
from raypipe.stages.stage import Beat, Opened, Payload, Rows, Site, Sizing, nothing, ranges
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.store import Stored

RUN_ROW_BYTES = 32
"""Bytes of a line: query row, passage row, score, rank, and the name of the scoring system."""
Block = Callable[[Shard], pa.Table | tuple[pa.Table, Mapping[str, Json]]]
"""The table of a block's queries, and its facts other than the number of rows."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The query set and the collection of a ranking."""

    queries: Stored
    collection: Stored

    def stores(self) -> dict[str, Stored]:
        """Both stores, by their names in every run's spec."""
        return {"queries": self.queries, "collection": self.collection}


def query_blocks(queries: Stored, sizing: Sizing) -> list[Shard]:
    """The plan: shards of `shard_queries` queries."""
    return ranges(queries.num_rows, sizing.shard_queries)


def opened_blocks(
    site: Site,
    block: Block,
    columns: pa.Schema = schema.RUN,
    *,
    close: Callable[[], None] = nothing,
) -> Opened:
    """An opened stage whose payload is the table of each block; one heartbeat per block."""

    def run(shard: Shard, skip: Rows, beat: Beat) -> Payload:
        beat(())
        made = block(shard)
        table, facts = made if isinstance(made, tuple) else (made, {})
        path = site.scratch / f"{shard.index}.parquet"
        return Payload(path, {"rows": write_table(path, columns, [table]), **facts})

    return Opened(run, close=close)


def num_lines(run: Stored) -> int:
    """The number of lines in a run's tables."""
    return sum(int(record.facts["rows"]) for record in run.manifest.records)
