"""A cluster on a virtual clock: hundreds of actors, preemption, crashes and stalls in seconds.

The loop is the real one; only time, workers and the ledger's files are simulated.
"""

import heapq
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raypipe.cluster.backend import (
    Beating,
    Committed,
    Done,
    Event,
    Lost,
    Mode,
    Preempted,
    Ready,
    Task,
)
from raypipe.cluster.failures import evidence_name
from raypipe.stages.stage import Needs, Rows
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Json, Record, Shard

BEAT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class World:
    """What happens to workers; probabilities are for one shard on one worker."""

    num_actors: int = 512
    start_seconds: tuple[float, float] = (20.0, 60.0)
    open_seconds: float = 5.0
    """In which a process that waits opens another stage."""
    shard_seconds: tuple[float, float] = (50.0, 70.0)
    row_seconds: float = 0.0
    """The same for each row, beside `shard_seconds`."""
    slow_share: float = 0.0
    """Share of processes that take four times as long."""
    paces: tuple[float, ...] = ()
    """How many times as long the first processes take, in the order in which they start."""
    preempted: float = 0.0
    crashed: float = 0.0
    stalled: float = 0.0
    """The worker stops answering without ending."""
    poison: frozenset[int] = frozenset()
    """Rows over which a worker dies."""
    batch_rows: int = 16


class Memory:
    """The part of a storage that the loop itself uses."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def replace(self, name: str, data: bytes) -> None:
        """See Storage."""
        self._files[name] = data

    def read(self, name: str) -> bytes:
        """See Storage."""
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def delete(self, name: str) -> None:
        """See Storage."""
        self._files.pop(name, None)


class SimulatedLedger(Ledger):
    """A ledger in memory; counts how often each shard was committed."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        """All shards are pending; nothing is read or written."""
        self.store = "simulated"
        self.shards = tuple(shards)
        self.fingerprint = "0"
        self.storage = Memory()  # type: ignore[assignment]
        self.commits: dict[int, int] = {}
        self.skipped: dict[int, tuple[int, ...]] = {}
        self.notes: list[Mapping[str, Json]] = []

    def pending(self) -> list[Shard]:
        """Shards that no worker has committed."""
        return [shard for shard in self.shards if shard.index not in self.commits]

    def record(self, shard: Shard) -> Record:
        """The shard's record; its payload has a byte for each row. Raises FileNotFoundError."""
        if shard.index not in self.commits:
            raise FileNotFoundError(str(shard))
        return Record(shard, "", shard.num_rows, {})

    def note(self, event: Mapping[str, Json]) -> None:
        """Keep the event."""
        self.notes.append(event)

    def imagine(self, shard: Shard) -> Record:
        """Commit a shard without a payload."""
        self.commits[shard.index] = self.commits.get(shard.index, 0) + 1
        return self.record(shard)


@dataclass
class SimulatedBackend:
    """See Backend; the same seed gives the same history."""

    world: World
    ledger: SimulatedLedger
    seed: int = 0
    num_processes: int = 0
    """That were started; one that waits serves the next worker."""
    _clock: float = 0.0
    _started: int = 0
    _sequence: int = 0
    _working: dict[int, "_Process"] = field(default_factory=dict)
    """The process of each living worker."""
    _waiting: list["_Process"] = field(default_factory=list)
    _heap: list[tuple[float, int, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Seed the world."""
        self._random = random.Random(self.seed)

    def start(self, task: Task) -> int:
        """See Backend."""
        self._started += 1
        worker = self._started
        if self._waiting:
            process = min(self._waiting, key=lambda each: each.free)
            self._waiting.remove(process)
            ready = max(0.0, process.free - self._clock) + self.world.open_seconds
        else:
            process, ready = self._new_process()
        self._working[worker] = process
        self._at(ready, Ready(worker, {}))
        return worker

    def _new_process(self) -> tuple["_Process", float]:
        """It, and the seconds until it is ready."""
        self.num_processes += 1
        given = self.world.paces[self.num_processes - 1 : self.num_processes]
        slow = 4.0 if self._random.random() < self.world.slow_share else 1.0
        pace = given[0] if given else slow
        return _Process(pace, self._clock), self._random.uniform(*self.world.start_seconds)

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
        """See Backend; decides at once what happens to the shard on this worker."""
        process, rows = self._working.get(worker), shard.num_rows - len(skip)
        seconds = self._random.uniform(*self.world.shard_seconds) + rows * self.world.row_seconds
        seconds *= 1.0 if process is None else process.pace
        fate = self._random.random()
        record = Record(shard, "", shard.num_rows, {"skipped_rows": list(skip)})
        committed = None if mode is Mode.PROBE else Committed(record)
        end: Event | None = Done(worker, shard, committed, seconds)
        for share, event in (
            (self.world.preempted, Preempted(worker, "spot notice")),
            (self.world.crashed, Lost(worker, "crashed")),
            (self.world.stalled, None),
        ):
            if fate < share:
                end, seconds = event, seconds * self._random.random()
                break
            fate -= share
        fatal = self._fatal_batch(shard, skip)
        if fatal and isinstance(end, Done):
            end, seconds = Lost(worker, "crashed"), seconds / 2
            if mode is not Mode.PLAIN:
                name = evidence_name(self.ledger, shard)
                self.ledger.storage.replace(name, json.dumps(fatal).encode())
        beat = BEAT_SECONDS
        while beat < seconds:
            self._at(beat, Beating(worker))
            beat += BEAT_SECONDS
        if end is not None:
            self._at(seconds, end)
        if process is not None:
            process.began = self._clock
            process.free = self._clock + seconds if isinstance(end, Done) else math.inf

    def wait(self, seconds: float) -> list[Event]:
        """See Backend; moves the clock to the next event, or by `seconds`."""
        until = self._clock + seconds
        events: list[Event] = []
        while self._heap and self._heap[0][0] <= until and not events:
            self._clock, _, event = heapq.heappop(self._heap)
            if event.worker not in self._working:
                continue  # killed in the meantime
            if isinstance(event, Done) and event.committed is not None:
                self.ledger.imagine(event.shard)
                facts = event.committed.record.facts
                self.ledger.skipped[event.shard.index] = tuple(facts["skipped_rows"])
            if isinstance(event, Lost | Preempted):
                self.kill(event.worker)
            events.append(event)
        if not events:
            self._clock = until
        return events

    def kill(self, worker: int) -> None:
        """See Backend."""
        self._working.pop(worker, None)

    def release(self, worker: int) -> None:
        """See Backend; one that computes leaves its shard at its next beat, if there is one."""
        process = self._working.pop(worker, None)
        if process is None:
            return
        if process.free > self._clock:
            beats = (self._clock - process.began) // BEAT_SECONDS + 1
            process.free = min(process.free, process.began + beats * BEAT_SECONDS)
        self._waiting.append(process)

    def end_idle(self) -> None:
        """See Backend."""
        self._waiting.clear()

    def capacity(self, needs: Needs) -> int:
        """See Backend."""
        return self.world.num_actors

    def now(self) -> float:
        """See Backend; the virtual clock."""
        return self._clock

    def close(self) -> None:
        """See Backend."""
        self._working.clear()
        self._waiting.clear()

    def _fatal_batch(self, shard: Shard, skip: Rows) -> list[int]:
        """The first batch with a row that kills."""
        left = sorted(set(range(shard.start, shard.stop)) - set(skip)) if self.world.poison else []
        size = self.world.batch_rows
        batches = (left[i : i + size] for i in range(0, len(left), size))
        return next((batch for batch in batches if self.world.poison & set(batch)), [])

    def _at(self, seconds: float, event: Event) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self._clock + seconds, self._sequence, event))


@dataclass
class _Process:
    pace: float
    """How many times as long it takes as others."""
    free: float
    """When it has computed its shard; infinite for one that never will."""
    began: float = 0.0
