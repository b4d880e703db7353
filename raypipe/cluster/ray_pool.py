"""The Ray backend: one actor per worker, pinned to its GPUs, never restarted by Ray.

Ray's own restarts would waste attempts on dead nodes and ignore the ledger. Here a dead actor is an
event: its shard returns to the queue, and a new actor replaces it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
)

from raypipe.cluster.backend import (
    Beating,
    Event,
    Failed,
    Lost,
    Mode,
    Needs,
    Ready,
    Rows,
    Task,
    done_event,
)
from raypipe.cluster.idle import IdleActors, Kind
from raypipe.cluster.ray_actor import Actor, death
from raypipe.cluster.ray_start import LocalRay, actor_environment
from raypipe.errors import first_line
from raypipe.storage.records import Shard

POLL_SECONDS = 2.0
IDLE_SECONDS = 60.0
"""How long a process without work waits for a task on this machine's own cluster. Then its memory
and its GPU are free; a later stage pays for another start."""
IDLE_SECONDS_JOINED = 10.0
"""The same on a cluster that was joined, where others may wait for what it holds."""
UNREACHABLE_SECONDS = 60.0
"""How long Ray may need to say what became of an actor that does not answer.

A node counts as dead only after some missed heartbeats: 13.6 s after it was killed (measured).
"""


@dataclass(slots=True)
class _Worker:
    """A worker that the loop knows, and the actor whose process it is."""

    actor: Any
    kind: Kind
    task: Task
    reused: bool
    """It is opening in the process of an earlier worker."""
    node: str | None = None
    """Where it is; None until it is ready."""
    beats: int = 0
    unreachable_since: float | None = None


class RayBackend:
    """Actors on the connected cluster; see Backend.

    It lives as long as the invocation: the process that one stage leaves serves the next. A
    worker's number is also the word by which its process knows what is meant for it.
    """

    def __init__(self, *, threads: int = 1, local: LocalRay | None = None) -> None:
        """Ray must be initialised; each actor gets `threads` threads.

        `local` is given for a cluster that only this process uses.
        """
        self._local = local
        self._threads = threads
        self._workers: dict[int, _Worker] = {}
        self._work: dict[Any, tuple[int, Shard | None]] = {}
        self._polls: dict[Any, int] = {}
        self._idle = IdleActors(self._end, seconds=IDLE_SECONDS if local else IDLE_SECONDS_JOINED)
        self._started = 0
        self._polled = time.monotonic()

    def start(self, task: Task) -> int:
        """See Backend; an actor that does not fit yet waits in Ray's queue without an event."""
        self._started += 1
        kind = self._kind(task.stage.needs)
        idle = self._idle.take(kind)
        if idle is None:
            self._idle.make_room(lambda others: self._fits([*others, kind]))
        self._open(self._started, idle or self._new_actor(kind), kind, task, reused=bool(idle))
        return self._started

    def _kind(self, needs: Needs) -> Kind:
        """What a worker's process must have been started with.

        Of the environment that is what Ray has to set because the process does not inherit it.
        """
        given = {} if self._local is None else self._local.environment
        wanted = actor_environment(self._threads)
        missing = sorted((name, to) for name, to in wanted.items() if given.get(name) != to)
        return Kind(needs.num_cpus, needs.num_gpus, needs.jvm, tuple(missing))

    def _fits(self, others: Sequence[Kind]) -> bool:
        """Whether these have room beside the workers; unknown where other drivers work too.

        One stage works at a time, so as many processes may wait as there are cores to work on.
        """
        if self._local is None:
            return False
        have: Mapping[str, float] = ray.cluster_resources()
        kinds = [*(worker.kind for worker in self._workers.values()), *others]
        cpus, gpus = sum(kind.num_cpus for kind in kinds), sum(kind.num_gpus for kind in kinds)
        return cpus <= 2 * have.get("CPU", 0) and gpus <= have.get("GPU", 0)

    def _new_actor(self, kind: Kind) -> Any:
        # Here no core is reserved, as one that waits must not hold it: `_fits` counts instead.
        num_cpus = kind.num_cpus if self._local is None else 0.0
        options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": kind.num_gpus}
        if kind.environment:
            options["runtime_env"] = {"env_vars": dict(kind.environment)}
        return Actor.options(**options).remote(self._threads)  # type: ignore[attr-defined]

    def _open(self, number: int, actor: Any, kind: Kind, task: Task, *, reused: bool) -> None:
        self._workers[number] = _Worker(actor, kind, task, reused)
        self._work[actor.open.remote(number, task)] = (number, None)

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
        """See Backend."""
        run = self._workers[worker].actor.run.remote(worker, shard, skip, mode)
        self._work[run] = (worker, shard)

    def check(self) -> None:
        """Returns nothing while every daemon started here runs; otherwise Ray's calls may hang.

        Raises:
            IncompleteError: a daemon has ended.
        """
        if self._local is not None:
            self._local.check()

    def wait(self, seconds: float) -> list[Event]:
        """See Backend.

        Raises:
            IncompleteError: a daemon of the cluster that this process started has ended.
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
        """See Backend."""
        found = self._forget(worker)
        if found is not None:
            self._end(found.actor)

    def release(self, worker: int) -> None:
        """See Backend; its process waits for another task.

        On a cluster that was joined, a GPU is free for others at once.
        """
        found = self._forget(worker)
        if found is None:
            return
        if self._local is None and found.kind.num_gpus:
            self._end(found.actor)
            return
        found.actor.leave.remote(worker)
        found.actor.rest.remote(worker)
        self._idle.add(found.actor, found.kind, ready=found.node is not None)

    def _forget(self, worker: int) -> _Worker | None:
        """The worker, of which no event follows any more."""
        self._work = {ref: at for ref, at in self._work.items() if at[0] != worker}
        self._polls = {ref: at for ref, at in self._polls.items() if at != worker}
        return self._workers.pop(worker, None)

    def _end(self, actor: Any) -> None:
        if not (self._local and self._local.ended()):
            ray.kill(actor, no_restart=True)

    def end_idle(self) -> None:
        """See Backend."""
        self._idle.end()

    def capacity(self, needs: Needs) -> int:
        """See Backend; at least 1. A joined cluster has no limit on GPUs: it may add nodes."""
        if needs.num_gpus and self._local is None:
            return 1 << 30
        have: Mapping[str, float] = ray.cluster_resources()
        fits = [have.get("CPU", 0) / needs.num_cpus] if needs.num_cpus else []
        fits += [have.get("GPU", 0) / needs.num_gpus] if needs.num_gpus else []
        return max(1, int(min(fits, default=1)))

    def now(self) -> float:
        """See Backend."""
        return time.monotonic()

    def close(self) -> None:
        """See Backend; leaves the cluster, and ends it if this process started it."""
        if self._local is None or not self._local.ended():
            for worker in list(self._workers):
                self.kill(worker)
            self._idle.end()
        if self._local is None or not self._local.ended():
            ray.shutdown()  # it would wait for daemons that have ended
        if self._local is not None:
            self._local.close()

    def _poll(self) -> None:
        """Ask for the heartbeats of every worker that answered the last request."""
        if time.monotonic() - self._polled < POLL_SECONDS:
            return
        self._polled = time.monotonic()
        asked = set(self._polls.values())
        for number, worker in self._workers.items():
            if worker.node is not None and number not in asked:
                self._polls[worker.actor.beats.remote()] = number

    def _polled_event(self, ref: Any) -> Event | None:
        """Beating if a batch has begun since the last answer: even a hung forward pass answers."""
        number = self._polls.pop(ref)
        try:
            told, count, rows = ray.get(ref)
        except (RayActorError, OutOfMemoryError):
            return None  # its task ends with the same error, which is reported only once
        worker = self._workers[number]
        if told != number or count == worker.beats:
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
            if worker.reused:  # it died between two tasks, for which this one is not to blame
                actor = self._new_actor(worker.kind)
                self._open(number, actor, worker.kind, worker.task, reused=False)
                return None
            dead = {node["NodeID"] for node in ray.nodes() if not node["Alive"]}
            return death(number, error, node_is_dead=worker.node in dead)
        if worker.unreachable_since is not None:
            return self._lose(number, "it answers again, but its work was lost on the way")
        if shard is None:
            facts, process, worker.node = result
            worker.reused = False
            return Ready(number, facts, process)
        done, seconds = result
        return done_event(number, shard, done, seconds)

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
