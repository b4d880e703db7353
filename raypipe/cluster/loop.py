"""The loop that computes the pending shards of a ledger, on any backend."""

from collections import deque
from collections.abc import Callable, Mapping

from raypipe.cluster.backend import (
    Backend,
    Beating,
    Committed,
    Done,
    Event,
    Failed,
    Lost,
    Mode,
    OutOfMemory,
    Preempted,
    Ready,
    Task,
)
from raypipe.cluster.failures import Failures
from raypipe.cluster.report import Limits, Report, report_of
from raypipe.cluster.stragglers import Late, Pace, Stragglers, Workers, work_of
from raypipe.errors import IncompleteError, RaypipeError, in_full
from raypipe.storage.holder import Process
from raypipe.storage.records import Json, Shard


class Loop:
    """Computes the pending shards of one store, on any backend; publishing is left to the caller.

    Workers are started while there is work for them, get one shard at a time, the long ones first,
    are replaced when they are lost and are let go when nothing is left. A shard whose worker fails
    goes to the front of the queue; preemption and node loss do not count as attempts. Near the end
    a worker without a shard tries one that is late on another: the first record wins, and the other
    worker is freed.
    """

    def __init__(
        self,
        task: Task,
        backend: Backend,
        limits: Limits,
        *,
        on_progress: Callable[[Report], None] = lambda report: None,
        on_ready: Callable[[Mapping[str, Json], Process | None], None] = lambda facts, process: (
            None
        ),
        should_stop: Callable[[], RaypipeError | None] = lambda: None,
    ) -> None:
        """Starts nothing yet.

        Args:
            task: the stage and its ledger.
            backend: where workers are started.
            limits: of workers, attempts and silence.
            on_progress: called with each committed shard, and while a long one is computed.
            on_ready: called with the facts of each worker; it may refuse one.
            should_stop: returns an error that ends the work.
        """
        self._task, self._backend, self._limits = task, backend, limits
        self._on_progress, self._on_ready, self._should_stop = on_progress, on_ready, should_stop
        pending = task.ledger.pending()
        work = work_of(task.stage, pending)
        self._pending = deque(sorted(pending, key=lambda s: work[s.index], reverse=True))
        self._workers, self._pace = Workers(), Pace(work)
        self._stragglers = Stragglers(self._workers, self._pace, limits)
        self._failures = Failures(task, limits.max_attempts)
        self._most = limits.num_actors
        self._starved = self._num_late = 0
        self._began = self._looked = self._told = backend.now()
        self._first_ready: float | None = None
        self.report = report_of(task.ledger.shards, pending)

    def run(self) -> Report:
        """Commit every pending shard.

        Raises:
            IncompleteError: a shard failed `max_attempts` times; the message names it.
            RaypipeError: an error of a stage about its input, or the one of `should_stop`.
        """
        try:
            while self._pending or self._workers.num_computing:
                self._grow()
                for event in self._backend.wait(self._limits.poll_seconds):
                    self._handle(event)
                self._look()
                self._employ()
                stop = self._should_stop()
                if stop is not None:
                    raise stop
            for number in list(
                self._workers.workers
            ):  # they wait, or still open, and nothing is left
                self._let_go(number)
        finally:
            for number in list(self._workers.workers):
                self._backend.kill(number)
            self.report.seconds = self._backend.now() - self._began
        return self.report

    def _grow(self) -> None:
        """Start as many workers as there is work for, late shards included."""
        work = len(self._pending) + self._workers.num_computing + self._num_late
        while len(self._workers) < min(self._most, work):
            self._workers.add(self._backend.start(self._task), self._backend.now())

    def _handle(self, event: Event) -> None:
        worker = self._workers.workers.get(event.worker)
        if worker is None:
            return  # a late event of a worker that was given up
        now = worker.last_seen = self._backend.now()
        match event:
            case Ready(facts=facts, process=process):
                self._on_ready(facts, process)
                self._failures.opened()
                if self._first_ready is None:
                    self._first_ready = now
                self._feed(event.worker)
            case Beating():
                worker.beaten = True
            case Done(shard=shard, committed=committed, seconds=seconds):
                self._workers.end_try(event.worker)
                worker.beaten = True
                if committed is None:
                    self._failures.survived(shard)
                    self._pending.appendleft(shard)
                else:
                    self._pace.done(event.worker, shard, seconds, committed.num_copied)
                    self._done(shard, committed, seconds)
                self._feed(event.worker)
            case Failed(shard=None, error=RaypipeError() as error):
                self._let_go(event.worker)  # refused for this stage, but sound
                self._failures.failed(None, error)
            case Failed(shard=shard, error=error):
                self._workers.end_try(event.worker)
                if isinstance(error, RaypipeError) or not self._goes_on(shard, in_full(error)):
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

    def _done(self, shard: Shard, done: Committed, seconds: float) -> None:
        """Count a committed shard, and tell of it."""
        self._failures.done(shard)
        self._num_late = 0
        for number in self._workers.tries(shard):
            self._discard(number, shard)
        self._starved = 0
        self.report.add(shard, done)
        self.report.working_seconds = self._backend.now() - (self._first_ready or 0.0)
        so_far: Json = [self.report.num_rows, round(self.report.working_seconds, 3)]
        self._task.note("done", shard, **done.log_entry(seconds), so_far=so_far)
        self._tell(self._backend.now())

    def _tell(self, now: float) -> None:
        """Also while a long shard is computed: who reads a log sees that work goes on."""
        self._told = now
        self.report.num_computing = self._workers.num_computing
        self._on_progress(self.report)

    def _discard(self, number: int, shard: Shard) -> None:
        """Free a worker whose shard another has committed."""
        worker = self._workers.workers[number]
        seconds = round(self._backend.now() - worker.since, 3)
        self._task.note("discarded", shard, seconds=seconds, second=worker.second)
        self._let_go(number)

    def _feed(self, number: int) -> None:
        """Give a worker the next shard; if none is left, it waits for one that is late."""
        now = self._backend.now()
        if not self._pending:
            self._workers.wait(number, now)
            return
        shard = self._pending.popleft()
        skip, mode = self._failures.next_try(shard)
        self._workers.give(number, shard, now, plain=mode is Mode.PLAIN)
        self._backend.submit(number, shard, skip, mode)

    def _employ(self) -> None:
        """Give those that wait a shard that came back, or one that is late; let the others go."""
        now = self._backend.now()
        while self._pending and self._workers.waiting:
            self._feed(next(iter(self._workers.waiting)))
        for number, late in self._stragglers.second_tries(now):
            self._try_too(number, late)
        for number in self._stragglers.not_needed(now):
            self._let_go(number)

    def _try_too(self, number: int, late: Late) -> None:
        """Let a second worker try a shard; the first record wins."""
        self._num_late = 0
        skip, mode = self._failures.next_try(late.shard)
        self._workers.give(number, late.shard, self._backend.now(), plain=True)
        self.report.num_second_tries += 1
        self._task.note("second try", late.shard, expected_seconds_left=round(late.left, 3))
        self._backend.submit(number, late.shard, skip, mode)

    def _let_go(self, number: int) -> None:
        self._forget(number)
        self._backend.release(number)

    def _give_up(self, number: int) -> None:
        self._forget(number)
        self._backend.kill(number)

    def _forget(self, number: int) -> Shard | None:
        self._pace.forget(number)
        return self._workers.remove(number)

    def _lose(self, number: int, reason: str, *, counts: bool) -> None:
        waited = self._workers.workers[number].waiting
        shard = self._forget(number)
        if waited or shard is not None and self._count_if_committed(shard):
            return
        if self._goes_on(shard, reason, blameless=not counts):
            return
        if counts:
            self._failures.died(shard, reason)
        elif shard is not None:
            self._task.note("preempted", shard, reason=reason)
        if shard is not None:
            self._pending.appendleft(shard)

    def _goes_on(self, shard: Shard | None, reason: str, *, blameless: bool = False) -> bool:
        """Whether another worker computes the shard too; then what ended this try costs no attempt.

        The other one's end decides: a row that kills or has no value does so there as well.
        """
        if shard is None or not self._workers.tries(shard):
            return False
        if blameless:
            self._workers.may_be_tried_again(shard)
        self._task.note("one of two tries ended", shard, reason=reason)
        return True

    def _count_if_committed(self, shard: Shard) -> bool:
        """Count a lost worker's shard as done if it had committed it; whether it had.

        Its answer was lost with it, and with the answer what it took and what was copied.

        Raises:
            CorruptError: the record is damaged.
        """
        try:
            record = self._task.ledger.record(shard)
        except FileNotFoundError:
            return False
        self._done(shard, Committed(record), 0.0)
        return True

    def _starve(self, number: int, reason: str) -> None:
        """Go on with one worker fewer; a death costs an attempt only where there is one.

        Raises:
            IncompleteError: a single worker has too little memory, with what can be done.
        """
        shard = self._forget(number)
        self._starved += self._most == 1
        self._most = max(1, min(self._most, len(self._workers)))
        if shard is not None and not self._count_if_committed(shard):
            self._task.note("out of memory", shard, reason=reason, workers=self._most)
            if not self._workers.tries(shard):
                self._pending.appendleft(shard)
        if self._starved >= self._limits.max_attempts:
            raise IncompleteError(
                f"{self._task.ledger.store}: {shard or 'a worker that was opening'} found too "
                f"little memory {self._starved} times, with no other worker beside it: {reason}; "
                "run the same command again with more memory or a smaller resources.budget_tokens"
            )

    def _look(self) -> None:
        """Find who is silent and what is late: not after every event, as this looks at everyone."""
        now = self._backend.now()
        if now - self._looked < self._limits.poll_seconds:
            return
        self._looked = now
        if now - self._told >= self._limits.quiet_seconds:
            self._tell(now)
        self._find_silent(now)
        self._num_late = 0 if self._pending else self._stragglers.num_late(now)

    def _find_silent(self, now: float) -> None:
        limits = self._limits
        silent = self._workers.silent(now, limits.silent_seconds, limits.silent_seconds_opening)
        for number, allowed in silent:
            if number not in self._workers.workers:
                continue  # let go: the shard of one before it was committed after all
            self._backend.kill(number)
            self.report.num_lost += 1
            self._lose(number, f"no heartbeat for {allowed:.0f} s", counts=True)
