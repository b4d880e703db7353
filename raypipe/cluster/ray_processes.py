"""The processes of a Ray backend's workers: started by kind, kept for the next stage, ended.

A process takes a second or two of a core to start and to import its libraries: for a recipe of many
short stages that is most of its time.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ray

from raypipe.cluster.backend import Needs
from raypipe.cluster.ray_actor import Actor
from raypipe.cluster.ray_start import LocalRay, actor_environment

IDLE_SECONDS = 60.0
"""How long a process without work waits for a task on this machine's own cluster. Then its memory
and its GPU are free; a later stage pays for another start."""
IDLE_SECONDS_JOINED = 10.0
"""The same on a cluster that was joined, where others may wait for what it holds."""


class Kind(NamedTuple):
    """What a process is started with; it serves only tasks of its kind.

    A process sees the same GPUs and the same environment as long as it lives. One that holds a GPU
    computes on it, any other on the CPU.
    """

    num_cpus: float
    num_gpus: float
    jvm: bool
    """Its tasks start a JVM, whose memory it keeps until it ends."""
    environment: tuple[tuple[str, str], ...] = ()


class _Waiting(NamedTuple):
    since: float
    ready: bool
    kind: Kind
    actor: Any


class IdleActors:
    """Actors that wait for a task, each with what it holds of its node."""

    def __init__(self, end: Callable[[Any], None], *, seconds: float) -> None:
        """`end` ends an actor's process; a thread calls it for those that wait so many seconds."""
        self._end, self._seconds = end, seconds
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._timer: threading.Timer | None = None

    def add(self, actor: Any, kind: Kind, *, ready: bool = True) -> None:
        """Keep an actor of this kind; one that is not ready still opens a stage nobody wants."""
        with self._lock:
            self._waiting.append(_Waiting(time.monotonic(), ready, kind, actor))
            self._wake_later()

    def take(self, kind: Kind) -> Any | None:
        """An actor of this kind; None if there is none.

        Ready ones come first, and of these the one that came last: so the others' time runs out
        if there is work for few.
        """
        with self._lock:
            fitting = [waiting for waiting in self._waiting if waiting.kind == kind]
            if not fitting:
                return None
            found = max(fitting, key=lambda waiting: (waiting.ready, waiting.since))
            self._waiting.remove(found)
        return found.actor

    def make_room(self, fits: Callable[[Sequence[Kind]], bool]) -> None:
        """End one after the other, the longest waiting first, until the rest leaves enough room."""
        with self._lock:
            while self._waiting and not fits([waiting.kind for waiting in self._waiting]):
                self._end(self._waiting.pop(0).actor)

    def end(self) -> None:
        """End them all."""
        self._end_older_than(0.0)

    def _end_older_than(self, seconds: float) -> None:
        with self._lock:
            now = time.monotonic()
            old = [waiting for waiting in self._waiting if now - waiting.since >= seconds]
            self._waiting = [waiting for waiting in self._waiting if waiting not in old]
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            self._wake_later()
            # Within the lock: who ends them all may then leave the cluster at once.
            for waiting in old:
                self._end(waiting.actor)

    def _wake_later(self) -> None:
        if self._waiting and self._timer is None:
            left = self._waiting[0].since + self._seconds - time.monotonic()
            self._timer = threading.Timer(max(0.0, left), self._end_older_than, [self._seconds])
            self._timer.daemon = True
            self._timer.start()


class RayProcesses:
    """Actors on the connected cluster, by what their processes were started with."""

    def __init__(self, *, threads: int, local: LocalRay | None, ended: Callable[[], bool]) -> None:
        """See RayBackend; `ended` says whether Ray's calls may hang."""
        self._threads, self._local, self._ended = threads, local, ended
        self._idle = IdleActors(self.end, seconds=IDLE_SECONDS if local else IDLE_SECONDS_JOINED)

    def kind(self, needs: Needs) -> Kind:
        """What a worker's process must have been started with.

        Of the environment that is what Ray has to set because the process does not inherit it.
        """
        given = {} if self._local is None else self._local.environment
        wanted = actor_environment(self._threads)
        missing = sorted((name, to) for name, to in wanted.items() if given.get(name) != to)
        return Kind(needs.num_cpus, needs.num_gpus, needs.jvm, tuple(missing))

    def take(self, kind: Kind, beside: Iterable[Kind]) -> Any | None:
        """An actor that waits; None if there is none, and then others made room for a new one.

        `beside` are the kinds of those at work.
        """
        idle = self._idle.take(kind)
        if idle is None:
            taken = [*beside, kind]
            self._idle.make_room(lambda others: self._fits([*taken, *others]))
        return idle

    def new(self, kind: Kind) -> Any:
        """A new actor; one that does not fit yet waits in Ray's queue."""
        # Here no core is reserved, as one that waits must not hold it: `_fits` counts instead.
        num_cpus = kind.num_cpus if self._local is None else 0.0
        options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": kind.num_gpus}
        if kind.environment:
            options["runtime_env"] = {"env_vars": dict(kind.environment)}
        return Actor.options(**options).remote(self._threads)  # type: ignore[attr-defined]

    def rest(self, actor: Any, kind: Kind, worker: int, *, ready: bool) -> bool:
        """Have an actor be this worker no more, and wait for another task; whether it does.

        On a cluster that was joined, one with a GPU ends: the GPU is free for others at once.
        """
        if self._local is None and kind.num_gpus:
            self.end(actor)
            return False
        actor.leave.remote(worker)
        actor.rest.remote(worker)
        self._idle.add(actor, kind, ready=ready)
        return True

    def end(self, actor: Any) -> None:
        """End an actor's process now; nothing where the head has ended, as Ray's calls may hang."""
        if not self._ended():
            ray.kill(actor, no_restart=True)

    def end_idle(self) -> None:
        """End those that wait."""
        self._idle.end()

    def capacity(self, needs: Needs) -> int:
        """See Backend; at least 1. A joined cluster has no limit on GPUs: it may add nodes."""
        if needs.num_gpus and self._local is None:
            return 1 << 30
        have: Mapping[str, float] = ray.cluster_resources()
        fits = [have.get("CPU", 0) / needs.num_cpus] if needs.num_cpus else []
        fits += [have.get("GPU", 0) / needs.num_gpus] if needs.num_gpus else []
        return max(1, int(min(fits, default=1)))

    def _fits(self, kinds: Sequence[Kind]) -> bool:
        """Whether all of these have room; unknown where other drivers work too.

        One stage works at a time, so as many processes may wait as there are cores to work on.
        """
        if self._local is None:
            return False
        have: Mapping[str, float] = ray.cluster_resources()
        cpus, gpus = sum(kind.num_cpus for kind in kinds), sum(kind.num_gpus for kind in kinds)
        return cpus <= 2 * have.get("CPU", 0) and gpus <= have.get("GPU", 0)
