"""The Ray backend: one actor per worker, pinned to its GPUs, never restarted by Ray.

Ray's own restarts would waste attempts on dead nodes and ignore the ledger. Here a dead actor is an
event: its shard returns to the queue, and a new actor replaces it.
"""

import time
from collections.abc import Mapping
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
    OutOfMemory,
    Preempted,
    Ready,
    Rows,
    Task,
    done_event,
)
from raypipe.cluster.idle import IdleActors
from raypipe.cluster.ray_actor import Actor
from raypipe.cluster.ray_start import LocalRay, actor_environment
from raypipe.errors import first_line
from raypipe.storage.records import Shard

POLL_SECONDS = 2.0
UNREACHABLE_SECONDS = 60.0
"""How long Ray may need to say what became of an actor that does not answer.

A node counts as dead only after some missed heartbeats: 13.6 s after it was killed (measured).
"""


class RayBackend:
    """Actors on the connected cluster; see Backend."""

    def __init__(self, *, threads: int = 1, local: LocalRay | None = None) -> None:
        """Ray must be initialised; each actor gets `threads` threads.

        `local` is given for a cluster that only this process uses.
        """
        self._local = local
        self._threads = threads
        self._actors: dict[int, Any] = {}
        self._nodes: dict[int, str] = {}
        self._work: dict[Any, tuple[int, Shard | None]] = {}
        self._polls: dict[Any, int] = {}
        self._unreachable: dict[int, float] = {}
        self._beats: dict[int, int] = {}
        self._tasks: dict[int, Task] = {}
        self._idle = IdleActors(self._end)
        self._reused: set[int] = set()
        """Workers that are opening in a process of an earlier task."""
        self._started = 0
        self._polled = time.monotonic()

    def start(self, task: Task) -> int:
        """See Backend; an actor that does not fit yet waits in Ray's queue without an event."""
        self._started += 1
        self._tasks[self._started] = task
        actor = self._idle.take(task.stage.needs)
        if actor is not None:
            self._reused.add(self._started)
        self._open(self._started, actor or self._new_actor(task.stage.needs))
        return self._started

    def _new_actor(self, needs: Needs) -> Any:
        return Actor.options(  # type: ignore[attr-defined]
            num_cpus=needs.num_cpus, num_gpus=needs.num_gpus, **self._environment()
        ).remote(self._threads)

    def _open(self, worker: int, actor: Any) -> None:
        self._actors[worker] = actor
        self._beats[worker] = 0
        self._work[actor.open.remote(self._tasks[worker])] = (worker, None)

    def _environment(self) -> dict[str, Any]:
        """The environment that Ray must set for an actor because it does not inherit it."""
        given = {} if self._local is None else self._local.environment
        wanted = actor_environment(self._threads)
        missing = {name: value for name, value in wanted.items() if given.get(name) != value}
        return {"runtime_env": {"env_vars": missing}} if missing else {}

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
        """See Backend."""
        self._work[self._actors[worker].run.remote(shard, skip, mode)] = (worker, shard)

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
        actor = self._forget(worker)
        if actor is not None:
            self._end(actor)

    def release(self, worker: int) -> None:
        """See Backend; its process waits for another task, unless it started a JVM."""
        needs = self._tasks[worker].stage.needs
        if needs.own_process:
            self.kill(worker)
            return
        actor = self._forget(worker)
        if actor is not None:
            actor.rest.remote()
            self._idle.add(actor, needs)

    def _forget(self, worker: int) -> Any | None:
        """The worker's actor, of which no event follows any more."""
        self._work = {ref: at for ref, at in self._work.items() if at[0] != worker}
        self._polls = {ref: at for ref, at in self._polls.items() if at != worker}
        self._reused.discard(worker)
        self._tasks.pop(worker, None)
        return self._actors.pop(worker, None)

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
            for worker in list(self._actors):
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
        for worker in self._nodes.keys() & self._actors.keys() - asked:
            self._polls[self._actors[worker].beats.remote()] = worker

    def _polled_event(self, ref: Any) -> Event | None:
        """Beating if a batch has begun since the last answer: even a hung forward pass answers."""
        worker = self._polls.pop(ref)
        try:
            count, rows = ray.get(ref)
        except (RayActorError, OutOfMemoryError):
            return None  # its task ends with the same error, which is reported only once
        if count == self._beats[worker]:
            return None
        self._beats[worker] = count
        return Beating(worker, rows)

    def _event(self, ref: Any) -> Event | None:
        worker, shard = self._work.pop(ref)
        try:
            result = ray.get(ref)
        except RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else RuntimeError(str(error))
            return Failed(worker, shard, cause)
        except ActorUnavailableError as error:
            return self._ask_again(worker, shard, error)
        except OutOfMemoryError as error:  # Ray ended it; the system's own killer says no reason
            if worker in self._reused:
                self._open_anew(worker)
                return None
            self._forget(worker)
            return OutOfMemory(worker, first_line(error))
        except RayActorError as error:
            if worker in self._reused:
                self._open_anew(worker)
                return None
            self._forget(worker)
            if getattr(error, "preempted", False) or self._node_is_gone(worker, error):
                return Preempted(worker, str(error))
            return Lost(worker, _why(error))
        if worker in self._unreachable:
            return self._lose(worker, "it answers again, but its work was lost on the way")
        if shard is None:
            self._reused.discard(worker)
            facts, process, self._nodes[worker] = result
            return Ready(worker, facts, process)
        done, seconds = result
        return done_event(worker, shard, done, seconds)

    def _open_anew(self, worker: int) -> None:
        """Replace a process that died between two tasks; this one is not to blame."""
        self._reused.discard(worker)
        self._open(worker, self._new_actor(self._tasks[worker].stage.needs))

    def _ask_again(self, worker: int, shard: Shard | None, error: Exception) -> Event | None:
        """Ask an actor that did not answer until Ray knows why; Lost if that takes too long."""
        began = self._unreachable.setdefault(worker, self.now())
        if self.now() - began > UNREACHABLE_SECONDS:
            return self._lose(worker, first_line(error))
        self._work[self._actors[worker].beats.remote()] = (worker, shard)
        return None

    def _lose(self, worker: int, reason: str) -> Lost:
        self.kill(worker)
        return Lost(worker, reason)

    def _node_is_gone(self, worker: int, error: Exception) -> bool:
        """Whether the actor died with its node, also one that had not said yet where it is."""
        node = self._nodes.get(worker)
        gone = any(n["NodeID"] == node and not n["Alive"] for n in ray.nodes())
        return gone or "its node has died" in str(error)


def _why(error: RayActorError) -> str:
    """Why an actor ended; for one that could not begin, what was missing on its node."""
    first, *others = (line.strip() for line in str(error).splitlines() if line.strip())
    return f"{first} {others[-1]}" if others and "creation task" in first else first
