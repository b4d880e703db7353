"""The Ray backend: one actor per worker, pinned to its GPUs, never restarted by Ray.

Ray's own restarts would waste attempts on dead nodes and ignore the ledger. Here a dead actor is an
event: its shard returns to the queue, and a new actor replaces it.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
)

from raypipe.cluster.backend import Beating, Done, Event, Failed, Lost, Mode, Ready, Task
from raypipe.cluster.ray_processes import ProcessKind, RayProcesses, death
from raypipe.cluster.ray_start import JoinedRay, LocalRay, answer_of, java_keeps_its_signals
from raypipe.errors import first_line
from raypipe.stages.stage import Needs, Rows
from raypipe.storage.records import Shard

POLL_SECONDS = 2.0
MANY = 100
"""Workers from which on they are asked less often, so that asking takes no more of the driver."""
LEAVE_SECONDS = 20.0
"""How long a process may go on with a shard that nobody waits for, once another task wants it."""
UNREACHABLE_SECONDS = 60.0
"""How long Ray may need to say what became of an actor that does not answer.

A node counts as dead only after some missed heartbeats: 13.6 s after it was killed (measured).
"""


@dataclass(slots=True)
class _Worker:
    """A worker that the loop knows, and the actor whose process it is."""

    actor: Any
    kind: ProcessKind
    task: Task
    reused: bool
    """It is opening in the process of an earlier worker."""
    node: str | None = None
    """Where it is; None until it is ready."""
    beats: int = 0
    unreachable_since: float | None = None
    before: Any = None
    """The answer that its process owes an earlier worker, which left in the middle of a shard."""
    since: float = 0.0
    """When it began to wait for that."""


class RayBackend:
    """Actors on the connected cluster; see Backend.

    It lives as long as the invocation: the process that one stage leaves serves the next. A
    worker's number is also the word by which its process knows what is meant for it.
    """

    def __init__(
        self,
        *,
        threads: int = 1,
        local: LocalRay | None = None,
        joined: JoinedRay | None = None,
    ) -> None:
        """Ray must be initialised; each actor gets `threads` threads.

        `local` is given for a cluster that only this process uses, `joined` for any other.
        """
        self._local = local
        self._cluster = local or joined
        self._processes = RayProcesses(threads=threads, local=local, ended=self._ended)
        self._workers: dict[int, _Worker] = {}
        self._work: dict[Any, tuple[int, Shard | None]] = {}
        self._polls: dict[Any, int] = {}
        self._leaving: list[tuple[Any, Any]] = []
        """Actors that were let go in the middle of a shard, and the answer of each."""
        self._started = 0
        self._polled = time.monotonic()

    @property
    def alone(self) -> bool:
        """Whether only this process uses the cluster."""
        return self._local is not None

    def start(self, task: Task) -> int:
        """Start a worker in an idle process of its kind, or else in a new actor.

        An actor that does not fit yet waits in Ray's queue without an event.
        """
        self._started += 1
        kind = self._processes.kind(task.stage.needs)
        idle = self._processes.take(kind, (worker.kind for worker in self._workers.values()))
        self._open(self._started, idle, kind, task)
        return self._started

    def _open(self, number: int, idle: Any | None, kind: ProcessKind, task: Task) -> None:
        """Have an actor that waited, or else a new one, be this worker."""
        actor = idle or self._processes.new(kind)
        leaving = next((each for each in self._leaving if each[0] is actor), None)
        worker = _Worker(actor, kind, task, reused=bool(idle))
        if leaving is not None:
            self._leaving.remove(leaving)
            worker.before, worker.since = leaving[1], self.now()
        self._workers[number] = worker
        self._work[actor.open.remote(number, task)] = (number, None)

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
        """Send the shard to the worker's actor."""
        run = self._workers[worker].actor.run.remote(worker, shard, skip, mode)
        self._work[run] = (worker, shard)

    def check(self) -> None:
        """Returns nothing while the cluster's head runs; otherwise Ray's calls may hang.

        Raises:
            IncompleteError: the head has ended, or one of its daemons that was started here.
        """
        if self._cluster is not None:
            self._cluster.check()

    def _ended(self) -> bool:
        return self._cluster is not None and self._cluster.ended()

    def wait(self, seconds: float) -> list[Event]:
        """The events of the calls that Ray has answered, after at most `seconds` for the first.

        Raises:
            IncompleteError: see `check`.
        """
        self.check()
        self._poll()
        refs = [*self._work, *self._polls]
        if not refs:
            time.sleep(seconds)
            return []
        ray.wait(refs, num_returns=1, timeout=seconds)
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        events = []
        for ref in ready:
            if ref in self._polls:
                events.append(self._polled_event(ref))
            elif ref in self._work:  # an event before this one may have ended its worker
                events.append(self._event(ref))
        return [event for event in events if event is not None]

    def kill(self, worker: int) -> None:
        """End the worker's process, whatever it is doing."""
        entry = self._forget(worker)
        if entry is not None:
            self._processes.end(entry.actor)

    def release(self, worker: int) -> None:
        """Take leave of a worker, whose process waits for another task, or ends.

        A worker that computes a shard stops at its next batch.
        """
        unanswered = [ref for ref, (at, shard) in self._work.items() if at == worker and shard]
        entry = self._forget(worker)
        if entry is not None:
            ready = entry.node is not None and not unanswered
            if self._processes.rest(entry.actor, entry.kind, worker, ready=ready):
                self._leaving += [(entry.actor, ref) for ref in unanswered]

    def _forget(self, worker: int) -> _Worker | None:
        """The worker, of which no event follows any more."""
        self._work = {ref: at for ref, at in self._work.items() if at[0] != worker}
        self._polls = {ref: at for ref, at in self._polls.items() if at != worker}
        return self._workers.pop(worker, None)

    def end_idle(self) -> None:
        """End the processes that wait for another task."""
        self._processes.end_idle()

    def capacity(self, needs: Needs) -> int:
        """The largest number of such workers that fit, at least 1; `check` may raise first."""
        return answer_of(partial(self._processes.capacity, needs), self.check)

    def now(self) -> float:
        """Seconds on the driver's monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """End every worker, leave the cluster, and end it if this process started it."""
        ended = self._ended()
        if not ended:  # Ray's calls would wait for it
            for worker in list(self._workers):
                self.kill(worker)
            self.end_idle()
        if self._local is not None:
            self._local.close()
        elif not ended:
            with java_keeps_its_signals():
                ray.shutdown()

    def _poll(self) -> None:
        """Ask for the heartbeats of every worker that answered the last request."""
        pause = POLL_SECONDS * max(1.0, len(self._workers) / MANY)
        if time.monotonic() - self._polled < pause:
            return
        self._polled = time.monotonic()
        self._end_those_that_do_not_leave()
        asked = set(self._polls.values())
        for number, worker in self._workers.items():
            if worker.node is not None and number not in asked:
                self._polls[worker.actor.beats.remote()] = number

    def _end_those_that_do_not_leave(self) -> None:
        """A process that hangs in a shard opens no stage: another takes its place."""
        self._leaving = [each for each in self._leaving if not _answered(each[1])]
        for worker in self._workers.values():
            if worker.before is None:
                continue
            if _answered(worker.before):
                worker.before = None
            elif self.now() - worker.since > LEAVE_SECONDS:
                worker.before = None
                self._processes.end(worker.actor)  # then its opening fails

    def _polled_event(self, ref: Any) -> Event | None:
        """Beating if a batch has begun since the last answer: even a hung forward pass answers."""
        number = self._polls.pop(ref)
        try:
            current, count, rows = ray.get(ref)
        except (RayActorError, OutOfMemoryError):
            return None  # its task ends with the same error, which is reported only once
        worker = self._workers[number]
        if current != number or count == worker.beats:
            return None
        worker.beats = count
        return Beating(number, rows)

    def _event(self, ref: Any) -> Event | None:
        number, shard = self._work.pop(ref)
        worker = self._workers[number]
        try:
            result = ray.get(ref)
        except RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else RuntimeError(str(error))
            return Failed(number, shard, cause)
        except ActorUnavailableError as error:
            return self._ask_again(number, shard, error)
        except (RayActorError, OutOfMemoryError) as error:
            self._forget(number)
            if worker.reused:  # perhaps it died between two tasks, and this one is not to blame
                self._open(number, None, worker.kind, worker.task)
                return None
            dead = {
                node["NodeID"] for node in answer_of(ray.nodes, self.check) if not node["Alive"]
            }
            return death(number, error, node_is_dead=worker.node in dead)
        if worker.unreachable_since is not None:
            return self._lose(number, "it answers again, but its work was lost on the way")
        if shard is None:
            facts, process, worker.node = result
            worker.reused = False
            return Ready(number, facts, process)
        done, seconds = result
        return Done(number, shard, done, seconds)

    def _ask_again(self, number: int, shard: Shard | None, error: Exception) -> Event | None:
        """Ask an actor that did not answer until Ray knows why; Lost if that takes too long."""
        worker = self._workers[number]
        if worker.unreachable_since is None:
            worker.unreachable_since = self.now()
        if self.now() - worker.unreachable_since > UNREACHABLE_SECONDS:
            return self._lose(number, first_line(error))
        self._work[worker.actor.beats.remote()] = (number, shard)
        return None

    def _lose(self, worker: int, reason: str) -> Lost:
        self.kill(worker)
        return Lost(worker, reason)


def _answered(ref: Any) -> bool:
    return bool(ray.wait([ref], num_returns=1, timeout=0)[0])
