"""What a stage is to a backend, and what a backend is to the loop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from raypipe.storage.holder import Process
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Json, Record, Shard
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


class Stage(Protocol):
    """Work that maps over shards. It reads stores and knows nothing about who runs it."""

    spec: StageSpec
    needs: Needs

    def open(self, site: Site) -> Mapping[str, Json]:
        """In the worker: load by path and hash; report versions and numerics class."""

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """Pure in (shard, skip); beat(rows) before each batch: heartbeat and poison evidence."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is started with: a stage, its ledger, and the words it must answer."""

    stage: Stage
    ledger: Ledger
    nonce: tuple[str, str] = ("", "")
    """Name and content of a file that every worker must find in the stores."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has spoken: who it is and what it runs on."""

    worker: int
    facts: Mapping[str, Json]
    process: Process | None = None


@dataclass(frozen=True, slots=True)
class Beating:
    """A worker was seen alive; `rows` is the batch it was about to compute."""

    worker: int
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A shard is committed."""

    worker: int
    shard: Shard
    record: Record
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The stage's own code raised. The worker lives; `error` is what it raised."""

    worker: int
    shard: Shard | None
    error: Exception


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker is gone: killed, crashed, out of memory, or silent for too long."""

    worker: int
    reason: str


@dataclass(frozen=True, slots=True)
class Preempted:
    """A worker's node was taken away: no fault of the shard."""

    worker: int
    reason: str


Event = Ready | Beating | Done | Failed | Lost | Preempted


class Backend(Protocol):
    """Starts workers and tells what becomes of them. Worker numbers are never used twice."""

    def start(self, task: Task) -> int:
        """A new worker's number; Ready, Failed or Lost follows."""

    def submit(self, worker: int, shard: Shard, skip: Rows) -> None:
        """Give a ready and idle worker a shard; Done, Failed, Lost or Preempted follows."""

    def wait(self, seconds: float) -> list[Event]:
        """What happened, after at most `seconds`; empty if nothing did."""

    def kill(self, worker: int) -> None:
        """End a worker now, whatever it does; no event follows."""

    def capacity(self, needs: Needs) -> int:
        """How many such workers fit at most."""

    def now(self) -> float:
        """Seconds on the backend's clock, real or simulated."""

    def close(self) -> None:
        """End every worker."""
