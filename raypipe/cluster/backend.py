"""The interface of a backend: it starts workers and reports events about them to the loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from raypipe.stages.stage import Needs, Rows, Stage
from raypipe.storage.holder import Process
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Json, Record, Shard


class Mode(Enum):
    """How a shard is computed."""

    PLAIN = "plain"
    CAREFUL = "careful"
    """A worker has died over the shard: each batch's rows are recorded before it is computed."""
    PROBE = "probe"
    """As careful, but only some rows are computed and nothing is committed."""


@dataclass(frozen=True, slots=True)
class Task:
    """A worker's start: a stage, its ledger, and the nonce that the worker must find."""

    stage: Stage
    ledger: Ledger
    nonce: tuple[str, str] = ("", "")
    """Name and content of a file that every worker must find in the stores."""

    def note(self, event: str, shard: Shard, **facts: Json) -> None:
        """Write an event of a shard to the store's log."""
        self.ledger.note({"event": event, "shard": shard.index, **facts})


@dataclass(frozen=True, slots=True)
class Committed:
    """A shard's record, and what it took, which stands in no record."""

    record: Record
    num_copied: int = 0
    """Rows copied from an older store."""
    num_tokens: int = 0
    """Tokens that a model read."""
    cpu_seconds: float = 0.0
    """CPU time of the worker's process, on all its threads."""
    computing_seconds: float | None = None
    """In which a GPU computed, of the whole time; None if nobody measured it."""

    def log_entry(self, seconds: float) -> dict[str, Json]:
        """The entry in attempts.jsonl about a shard that took so many seconds."""
        entry: dict[str, Json] = {"seconds": round(seconds, 3), "copied": self.num_copied}
        entry |= {"tokens": self.num_tokens, "cpu_seconds": round(self.cpu_seconds, 3)}
        if self.computing_seconds is not None and seconds > 0:
            # Of the whole shard, reading, writing and committing too: what the GPU waits for.
            entry["gpu_idle"] = round(max(0.0, 1 - self.computing_seconds / seconds), 4)
        return entry


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker is ready: who it is and what it runs on."""

    worker: int
    facts: Mapping[str, Json]
    process: Process | None = None


@dataclass(frozen=True, slots=True)
class Beating:
    """A worker is alive; `rows` is the batch that it was about to compute."""

    worker: int
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A shard was computed; a probe, which survived, commits nothing."""

    worker: int
    shard: Shard
    committed: Committed | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The stage's code raised `error`; the worker is still alive."""

    worker: int
    shard: Shard | None
    error: Exception


@dataclass(frozen=True, slots=True)
class End:
    """How a worker ended."""

    worker: int
    reason: str


class Lost(End):
    """A worker was lost: killed, crashed, or silent for too long."""


class Preempted(End):
    """A worker's node was taken away; the shard is not to blame."""


class OutOfMemory(End):
    """A worker was ended because its node was short of memory; its rows are not to blame."""


Event = Ready | Beating | Done | Failed | Lost | Preempted | OutOfMemory


class Backend(Protocol):
    """Starts workers and reports events about them. Worker numbers are never reused."""

    def start(self, task: Task) -> int:
        """Start a worker and return its number; Ready, or how it ended, follows."""

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
        """Give a ready and idle worker a shard; Done, or how it ended, follows."""

    def wait(self, seconds: float) -> list[Event]:
        """The events, after waiting at most `seconds`; empty if there are none."""

    def kill(self, worker: int) -> None:
        """End a worker now, whatever it is doing; no event follows."""

    def release(self, worker: int) -> None:
        """Take leave of a worker for which there is no more work; no event follows.

        It may be idle, still opening, refused, or in the middle of a shard that another worker has
        committed, which it stops as soon as it can. The backend may give its process another task.
        """

    def end_idle(self) -> None:
        """End the processes that wait for another task."""

    def capacity(self, needs: Needs) -> int:
        """The largest number of such workers that fit."""

    def now(self) -> float:
        """Seconds on the backend's own clock."""

    def close(self) -> None:
        """End every worker."""
