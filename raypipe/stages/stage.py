"""What a stage is: work that maps over shards and knows nothing about who runs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec

Rows = Sequence[int]
Beat = Callable[[Rows], None]


@dataclass(frozen=True, slots=True)
class Needs:
    """What one worker of a stage holds while it lives."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    threads: int = 1
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Sizing:
    """How large a plan's shards should be; in no fingerprint."""

    num_actors: int = 1
    shard_tokens: int = 250_000
    shard_rows: int = 100_000
    shard_queries: int = 1_000


@dataclass(frozen=True, slots=True)
class Site:
    """Where a stage is opened: the worker's device, threads and folder for unfinished files."""

    scratch: Path
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Payload:
    """A shard's file, complete but uncommitted, and what a reader must know of it.

    facts hold only what the rows determine; `numerics` among them where floats are computed.
    """

    path: Path
    facts: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """A stage in a worker, ready for its shards."""

    run: Callable[[Shard, Rows, Beat], Payload]
    """A shard without the rows of `skip`: pure in (shard, skip). It calls beat(rows) before each
    batch: a heartbeat, and evidence of which rows a worker died of."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Versions and numerics class."""


class Stage(Protocol):
    """Work that maps over shards: reads stores, writes one store."""

    @property
    def spec(self) -> StageSpec:
        """All that a row's value depends on."""

    @property
    def needs(self) -> Needs:
        """What one worker holds."""

    @property
    def skips_rows(self) -> bool:
        """Whether a shard can be computed without some of its rows.

        Only then is a row looked for when its workers die.
        """

    def shards(self, sizing: Sizing) -> list[Shard]:
        """The plan for a new store; one that stands is adopted instead."""

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """About how many bytes of payload so many of all planned rows take; 0 where few."""

    def open(self, site: Site) -> Opened:
        """In the worker: load by path and hash."""


def ranges(num_rows: int, size: int) -> list[Shard]:
    """Shards of at most `size` rows, as equal as can be; one empty shard for no rows."""
    num_shards = max(1, -(-num_rows // size))
    edges = [num_rows * i // num_shards for i in range(num_shards + 1)]
    return [Shard(i, edges[i], edges[i + 1]) for i in range(num_shards)]
