"""Stages whose rows cost next to nothing: a function makes a block's table, or the whole file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.stages.stage import (
    Beat,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
    nothing,
    ranges,
)
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

RUN_ROW_BYTES = 32
"""Bytes of a line: query row, passage row, score, rank, and the name of the scoring system."""
Block = Callable[[Shard], pa.Table | tuple[pa.Table, Mapping[str, Json]]]
"""The table of a block's queries, and its facts other than the number of rows."""


@dataclass(frozen=True)
class TableStage(Stage):
    """A table by query row, made block by block; a kind of stage is one such function."""

    name: str
    """Of the run; error messages say it."""
    make_spec: Callable[[], StageSpec]
    """Called whenever the spec is asked for: a file that it reads may have changed since."""
    stores: Mapping[str, Stored]
    """What it reads, by the names in its spec; `queries` has its rows."""
    block: Block
    num_bytes: Callable[[], int] = lambda: 0
    """Estimated, of the whole payload; 0 if it is small. It may read the inputs' records."""
    columns: pa.Schema = schema.RUN
    divided: bool = True
    """Into blocks of queries; otherwise one shard holds all of them."""
    file: Path | None = None
    """A run file that it reads."""

    @property
    def spec(self) -> StageSpec:
        """See Stage."""
        return self.make_spec()

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks, or one shard."""
        if not self.divided:
            return [Shard(0, 0, self.stores["queries"].num_rows)]
        return query_blocks(self.stores["queries"], sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return self.num_bytes() * num_rows // max(1, num_planned)

    def open(self, site: Site) -> Opened:
        """See Stage; the table of each block. Its `run` raises what the function does."""
        return opened_blocks(site, self.block, self.columns)


@dataclass(frozen=True)
class WholeStage(Stage):
    """One file of all rows of a store, or several, each in a shard of its own; a kind of stage is
    one such function."""

    make_spec: Callable[[], StageSpec]
    rows: Stored
    """The store whose rows it has."""
    write: Callable[[Site, Shard, Beat], Payload]
    num_bytes: Callable[[int, int], int] = lambda num_rows, num_planned: 0
    """See Stage's `estimated_bytes`."""
    files: int = 1
    """How many it makes; `write` tells them by the shard's index."""
    facts: Callable[[], Mapping[str, Json]] = dict
    """See Opened; found on the worker."""

    @property
    def spec(self) -> StageSpec:
        """See Stage."""
        return self.make_spec()

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard a file."""
        return [Shard(i, 0, self.rows.num_rows, 0, i) for i in range(self.files)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return self.num_bytes(num_rows, num_planned)

    def open(self, site: Site) -> Opened:
        """See Stage; each file. Its `run` raises what the function does."""
        return Opened(lambda shard, skip, beat: self.write(site, shard, beat), self.facts())


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
