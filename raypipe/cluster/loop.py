"""The loop that computes the pending shards of a ledger, on any backend."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from raypipe.cluster.backend import (
    Backend,
    Beating,
    Done,
    Event,
    Failed,
    Lost,
    OutOfMemory,
    Preempted,
    Ready,
    Task,
)
from raypipe.cluster.failures import Failures
from raypipe.errors import IncompleteError, RaypipeError
from raypipe.storage.holder import Process
from raypipe.storage.records import Json, Record, Shard


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the loop."""

    num_actors: int = 1
    max_attempts: int = 3
    """Failures of one shard after which the invocation ends; preemptions do not count."""
    silent_seconds: float = 120.0
    """Seconds without a heartbeat after which a worker counts as dead."""
    silent_seconds_opening: float = 600.0
    """The same before its first batch, while weights are loaded."""
    poll_seconds: float = 1.0


@dataclass(slots=True)
class Report:
    """What one invocation did for one store."""

    num_planned: int = 0
    num_reused: int = 0
    num_done: int = 0
    num_lost: int = 0
    num_preempted: int = 0
    num_out_of_memory: int = 0
    """Workers that were ended because their node was short of memory."""
    num_copied: int = 0
    """Rows that were taken from older stores."""
    num_rows: int = 0
    """Of the shards that were committed."""
    num_bytes: int = 0
    """Of the payloads that were committed."""
    num_tokens: int = 0
    """Tokens that a model read."""
    cpu_seconds: float = 0.0
    """CPU time of the workers' processes over the shards that were committed, loading excluded."""
    seconds: float = 0.0
    working_seconds: float = 0.0
    """Time from the first ready worker to the last commit, so without loading."""


@dataclass(slots=True)
class _Worker:
    shard: Shard | None = None
    beaten: bool = False
    last_seen: float = 0.0


class Loop:
    """The state of one invocation over one store; see `run`."""

    def __init__(
        self,
        task: Task,
        backend: Backend,
        limits: Limits,
        *,
        on_progress: Callable[[Report], None],
        on_ready: Callable[[Mapping[str, Json], Process | None], None],
        should_stop: Callable[[], RaypipeError | None],
    ) -> None:
        """Starts nothing yet."""
        self._task, self._backend, self._limits = task, backend, limits
        self._on_progress, self._on_ready, self._should_stop = on_progress, on_ready, should_stop
        self._pending = deque(task.ledger.pending())
        self._workers: dict[int, _Worker] = {}
        self._failures = Failures(task, limits.max_attempts)
        self._most = limits.num_actors
        self._starved = 0
        self._began = backend.now()
        self._first_ready: float | None = None
        planned = len(task.ledger.shards)
        self.report = Report(num_planned=planned, num_reused=planned - len(self._pending))

    def run(self) -> Report:
        """Run until nothing is pending; see `run`."""
        try:
            while self._pending or any(w.shard for w in self._workers.values()):
                self._grow()
                for event in self._backend.wait(self._limits.poll_seconds):
                    self._handle(event)
                self._find_silent()
                stop = self._should_stop()
                if stop is not None:
                    raise stop
            for number in list(self._workers):  # they are still opening, and nothing is left
                self._let_go(number)
        finally:
            for number in list(self._workers):
                self._backend.kill(number)
            self.report.seconds = self._backend.now() - self._began
        return self.report

    def _grow(self) -> None:
        """Start as many workers as there is work for."""
        in_flight = sum(1 for w in self._workers.values() if w.shard)
        wanted = min(self._most, len(self._pending) + in_flight)
        while len(self._workers) < wanted:
            number = self._backend.start(self._task)
            self._workers[number] = _Worker(last_seen=self._backend.now())

    def _handle(self, event: Event) -> None:
        worker = self._workers.get(event.worker)
        if worker is None:
            return  # a late event of a worker that was given up
        worker.last_seen = self._backend.now()
        match event:
            case Ready(facts=facts, process=process):
                self._on_ready(facts, process)
                self._failures.opened()
                if self._first_ready is None:
                    self._first_ready = worker.last_seen
                self._feed(event.worker)
            case Beating():
                worker.beaten = True
            case Done(shard=shard, record=None):
                worker.shard, worker.beaten = None, True
                self._failures.survived(shard)
                self._pending.appendleft(shard)
                self._feed(event.worker)
            case Done(shard=shard, record=Record()):
                worker.shard, worker.beaten = None, True
                self._done(event)
                self._feed(event.worker)
            case Failed(shard=None, error=RaypipeError() as error):
                self._let_go(event.worker)  # refused for this stage, but sound
                self._failures.failed(None, error)
            case Failed(shard=shard, error=error):
                worker.shard = None
                self._failures.failed(shard, error)
                if shard is not None:
                    self._pending.appendleft(shard)
                self._give_up(event.worker)
            case Lost(reason=reason):
                self.report.num_lost += 1
                self._lose(event.worker, reason, counts=True)
            case Preempted(reason=reason):
                self.report.num_preempted += 1
                self._lose(event.worker, reason, counts=False)
            case OutOfMemory(reason=reason):
                self.report.num_out_of_memory += 1
                self._starve(event.worker, reason)

    def _done(self, done: Done) -> None:
        """Count a committed shard, and tell of it."""
        self._failures.done(done.shard)
        self._starved = 0
        self.report.num_done += 1
        self.report.working_seconds = self._backend.now() - (self._first_ready or 0.0)
        self.report.num_copied += done.num_copied
        self.report.num_rows += done.shard.num_rows
        self.report.num_bytes += done.record.num_bytes if done.record else 0
        self.report.num_tokens += done.num_tokens
        self.report.cpu_seconds += done.cpu_seconds
        told: dict[str, Json] = {"seconds": round(done.seconds, 3), "copied": done.num_copied}
        told |= {"tokens": done.num_tokens, "cpu_seconds": round(done.cpu_seconds, 3)}
        if done.computing_seconds is not None and done.seconds > 0:
            # Of the whole shard, reading, writing and committing too: what the GPU waits for.
            told["gpu_idle"] = round(max(0.0, 1 - done.computing_seconds / done.seconds), 4)
        self._task.note("done", done.shard, **told)
        self._on_progress(self.report)

    def _feed(self, number: int) -> None:
        """Give an idle worker the next shard; if none is left, let it go."""
        if not self._pending:
            self._let_go(number)
            return
        shard = self._pending.popleft()
        self._workers[number].shard = shard
        skip, mode = self._failures.next_try(shard)
        self._backend.submit(number, shard, skip, mode)

    def _let_go(self, number: int) -> None:
        del self._workers[number]
        self._backend.release(number)

    def _give_up(self, number: int) -> None:
        del self._workers[number]
        self._backend.kill(number)

    def _lose(self, number: int, reason: str, *, counts: bool) -> None:
        shard = self._workers.pop(number).shard
        if shard is not None and self._count_if_committed(shard):
            return
        if counts:
            self._failures.died(shard, reason)
        elif shard is not None:
            self._task.note("preempted", shard, reason=reason)
        if shard is not None:
            self._pending.appendleft(shard)

    def _count_if_committed(self, shard: Shard) -> bool:
        """Count a lost worker's shard as done if it had committed it; whether it had.

        Its answer was lost with it, and with the answer what it took and what was copied.
        """
        if not self._task.ledger.has(shard):
            return False
        self._done(Done(0, shard, None, 0.0))
        return True

    def _starve(self, number: int, reason: str) -> None:
        """Go on with one worker fewer; a death costs an attempt only where there is one.

        Raises:
            IncompleteError: a single worker has too little memory, with what can be done.
        """
        shard = self._workers.pop(number).shard
        self._starved += self._most == 1
        self._most = max(1, min(self._most, len(self._workers)))
        if shard is not None and not self._count_if_committed(shard):
            self._task.note("out of memory", shard, reason=reason, workers=self._most)
            self._pending.appendleft(shard)
        if self._starved >= self._limits.max_attempts:
            raise IncompleteError(
                f"{self._task.ledger.store}: {shard or 'a worker that was opening'} found too "
                f"little memory {self._starved} times, with no other worker beside it: {reason}; "
                "run the same command again with more memory or a smaller resources.budget_tokens"
            )

    def _find_silent(self) -> None:
        limits, now = self._limits, self._backend.now()
        for number, worker in list(self._workers.items()):
            allowed = limits.silent_seconds if worker.beaten else limits.silent_seconds_opening
            if now - worker.last_seen > allowed:
                self._backend.kill(number)
                self.report.num_lost += 1
                self._lose(number, f"no heartbeat for {allowed:.0f} s", counts=True)


def run(
    task: Task,
    backend: Backend,
    limits: Limits,
    *,
    on_progress: Callable[[Report], None] = lambda report: None,
    on_ready: Callable[[Mapping[str, Json], Process | None], None] = lambda facts, process: None,
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
) -> Report:
    """Commit every pending shard of the task's ledger; publishing is left to the caller.

    Workers are started while there is work for them, get one shard at a time, are replaced when
    they are lost and are let go when nothing is left. A shard whose worker fails goes to the front
    of the queue; preemption and node loss do not count as attempts.

    Raises:
        IncompleteError: a shard failed `max_attempts` times; the message names it.
        RaypipeError: an error of a stage about its input, or the error that `should_stop` returned.
    """
    loop = Loop(
        task,
        backend,
        limits,
        on_progress=on_progress,
        on_ready=on_ready,
        should_stop=should_stop,
    )
    return loop.run()
