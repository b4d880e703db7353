"""Stages whose rows cost next to nothing: a function makes a block's table, or the whole file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from raypipe import schema
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
    nothing,
    ranges,
)
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

LINE_BYTES, SCORE_BYTES, FILE_BYTES = 11, 24, 1_700
"""Of a stored line of a run (8.5, 10.4 and 11.0 for random passages of 6,000, 100,000 and
8,841,823), of a stored score, and of a shard's file beside them."""
LINE_SECONDS = 1.5e-6
"""CPU time to write a line, on the machine of tests/benchmarks."""
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
    num_lines: Callable[[], int] | None = None
    """At most, of the whole table; it may read the inputs' records. None of a table that is small,
    and of one that only `expected_facts` knows."""
    columns: pa.Schema = schema.RUN
    divided: bool = True
    """Into blocks of queries; otherwise one shard holds all of them."""
    expected_facts: Callable[[], Mapping[str, Json]] = dict
    """See Expected's `facts`: those beside the number of lines, `rows`, or with it."""

    @property
    def spec(self) -> StageSpec:
        """The specification, made anew at each call."""
        return self.make_spec()

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks, or one shard."""
        if not self.divided:
            return [Shard(0, 0, self.stores["queries"].num_rows)]
        return query_blocks(self.stores["queries"], sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        if self.num_lines is None:
            return 0
        return self._line_bytes * self.num_lines() * num_rows // max(1, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: all lines that there can be."""
        facts = dict(self.expected_facts())
        if self.num_lines is not None:
            facts["rows"] = self.num_lines()
        if "rows" not in facts:
            return super().expected(expectations)
        shards = self.shards(expectations.sizing)
        return expected_lines(shards, facts, line_bytes=self._line_bytes)

    @property
    def _line_bytes(self) -> int:
        return SCORE_BYTES if self.columns is schema.SCORES else LINE_BYTES

    def open(self, site: Site) -> Opened:
        """Open it: the table of each block. Its `run` raises what the function does."""
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
    expected_payload: bytes = b""
    """See Expected."""
    note: str = ""
    """See Expected."""

    @property
    def spec(self) -> StageSpec:
        """The specification, made anew at each call."""
        return self.make_spec()

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard a file."""
        return [Shard(i, 0, self.rows.num_rows, 0, i) for i in range(self.files)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return self.num_bytes(num_rows, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """The bytes and seconds of its files."""
        expected = super().expected(expectations)
        return replace(expected, payload=self.expected_payload, note=self.note)

    def open(self, site: Site) -> Opened:
        """Open it: each file. Its `run` raises what the function does."""
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


def expected_lines(
    shards: Sequence[Shard],
    facts: Mapping[str, Json],
    *,
    seconds: float = 0.0,
    line_bytes: int = LINE_BYTES,
    note: str = "",
) -> Expected:
    """A run, or a table of scores, of so many lines.

    Args:
        shards: its plan.
        facts: those of its records; `rows` is the number of lines, at most.
        seconds: of computing them; writing them is added.
        line_bytes: of a stored line.
        note: see Expected.
    """
    lines = int(facts["rows"])
    return Expected(
        shards=shards,
        num_bytes=float(line_bytes * lines + FILE_BYTES * len(shards)),
        seconds=seconds + lines * LINE_SECONDS,
        facts=facts,
        note=note,
    )


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
