"""A cluster on a virtual clock: hundreds of actors, preemption, crashes and stalls in seconds.

The loop is the real one; only time, workers and the ledger's files are simulated.
"""

import heapq
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raypipe.cluster.backend import Beating, Done, Event, Lost, Mode, Preempted, Ready, Task
from raypipe.cluster.bad_rows import evidence_name
from raypipe.stages.stage import Needs, Rows
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Json, Record, Shard

BEAT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class World:
    """What happens to workers; probabilities are for one shard on one worker."""

    num_actors: int = 512
    start_seconds: tuple[float, float] = (20.0, 60.0)
    shard_seconds: tuple[float, float] = (50.0, 70.0)
    slow_share: float = 0.0
    """Share of workers that take four times as long."""
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

    def has(self, shard: Shard) -> bool:
        """Whether a worker has committed it."""
        return shard.index in self.commits

    def note(self, event: Mapping[str, Json]) -> None:
        """Keep the event."""
        self.notes.append(event)

    def imagine(self, shard: Shard) -> Record:
        """Commit a shard without a payload."""
        self.commits[shard.index] = self.commits.get(shard.index, 0) + 1
        return Record(shard, "", 0, {})


@dataclass
class SimulatedBackend:
    """See Backend; the same seed gives the same history."""

    world: World
    ledger: SimulatedLedger
    seed: int = 0
    _clock: float = 0.0
    _started: int = 0
    _sequence: int = 0
    _living: set[int] = field(default_factory=set)
    _slow: dict[int, float] = field(default_factory=dict)
    _heap: list[tuple[float, int, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Seed the world."""
        self._random = random.Random(self.seed)

    def start(self, task: Task) -> int:
        """See Backend."""
        self._started += 1
        worker = self._started
        self._living.add(worker)
        self._slow[worker] = 4.0 if self._random.random() < self.world.slow_share else 1.0
        self._at(self._random.uniform(*self.world.start_seconds), Ready(worker, {}))
        return worker

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
        """See Backend; decides at once what happens to the shard on this worker."""
        seconds = self._random.uniform(*self.world.shard_seconds) * self._slow[worker]
        fate = self._random.random()
        record = None if mode is Mode.PROBE else Record(shard, "", 0, {"skipped_rows": list(skip)})
        end: Event | None = Done(worker, shard, record, seconds)
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

    def wait(self, seconds: float) -> list[Event]:
        """See Backend; moves the clock to the next event, or by `seconds`."""
        until = self._clock + seconds
        events: list[Event] = []
        while self._heap and self._heap[0][0] <= until and not events:
            self._clock, _, event = heapq.heappop(self._heap)
            if event.worker not in self._living:
                continue  # killed in the meantime
            if isinstance(event, Done) and event.record is not None:
                self.ledger.imagine(event.shard)
                self.ledger.skipped[event.shard.index] = tuple(event.record.facts["skipped_rows"])
            if isinstance(event, Lost | Preempted):
                self._living.discard(event.worker)
            events.append(event)
        if not events:
            self._clock = until
        return events

    def kill(self, worker: int) -> None:
        """See Backend."""
        self._living.discard(worker)

    def release(self, worker: int) -> None:
        """See Backend; ends it."""
        self.kill(worker)

    def end_idle(self) -> None:
        """See Backend; there are none."""

    def capacity(self, needs: Needs) -> int:
        """See Backend."""
        return self.world.num_actors

    def now(self) -> float:
        """See Backend; the virtual clock."""
        return self._clock

    def close(self) -> None:
        """See Backend."""
        self._living.clear()

    def _fatal_batch(self, shard: Shard, skip: Rows) -> list[int]:
        """The first batch with a row that kills."""
        left = sorted(set(range(shard.start, shard.stop)) - set(skip)) if self.world.poison else []
        size = self.world.batch_rows
        batches = (left[i : i + size] for i in range(0, len(left), size))
        return next((batch for batch in batches if self.world.poison & set(batch)), [])

    def _at(self, seconds: float, event: Event) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self._clock + seconds, self._sequence, event))
