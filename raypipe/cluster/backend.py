"""What a backend is to the loop: it starts workers and reports what becomes of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Stage
from raypipe.storage.holder import Process
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Json, Record, Shard

__all__ = ["Beat", "Needs", "Opened", "Payload", "Rows", "Site", "Stage"]


class Mode(Enum):
    """How a shard is computed."""

    PLAIN = "plain"
    CAREFUL = "careful"
    """Its worker has died once: each batch's rows are written down before it is computed."""
    PROBE = "probe"
    """As careful, of some rows only, and nothing is committed."""


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
    """A shard is committed; a probe, which has no record, has survived."""

    worker: int
    shard: Shard
    record: Record | None
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
    """Starts workers and reports what becomes of them. Worker numbers are never used twice."""

    def start(self, task: Task) -> int:
        """A new worker's number; Ready, Failed or Lost follows."""

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
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
