"""The processes of a Ray backend's workers: started by kind, kept for the next stage, ended.

A process takes a second or two of a core to start and to import its libraries: for a recipe of many
short stages that is most of its time. So each is one Ray actor, which serves stage after stage. Ray
never restarts it.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ray
from ray.exceptions import OutOfMemoryError as RayOutOfMemoryError
from ray.exceptions import RayActorError

from raypipe.cluster.backend import Committed, Lost, Mode, OutOfMemory, Preempted, Task
from raypipe.cluster.ray_start import LocalRay, actor_environment
from raypipe.cluster.worker import introduce, perform
from raypipe.errors import first_line
from raypipe.models.machine.memory import give_memory_back
from raypipe.stages.stage import Needs, Opened, Rows, Site
from raypipe.storage.holder import Process, this_process
from raypipe.storage.records import Json, Shard


class Left(BaseException):
    """A worker was told to leave while it computed; no stage that survives errors catches it."""


@ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups={"beat": 1})
class Actor:
    """A process that is one worker after another, each with a number that is never used again.

    Every message names the worker that it is for. So one that comes late, for a worker that this
    process no longer is, changes nothing and commits nothing. A separate thread answers `beats` and
    `leave` while a shard is computed.
    """

    def __init__(self, threads: int) -> None:
        """Is no worker yet."""
        self._threads = threads
        self._number = self._left = 0
        self._task: Task | None = None
        self._site: Site | None = None
        self._opened: Opened | None = None
        self._lock = threading.Lock()
        self._beats = 0
        self._rows: tuple[int, ...] = ()

    def open(self, number: int, task: Task) -> tuple[dict[str, Json], Process, str] | None:
        """Be this worker and load the task's stage; returns facts, process and node.

        None if the worker was told to leave before it began.
        """
        self._close()
        with self._lock:
            if number <= self._left:
                return None
            self._number = number
            self._beats, self._rows = 0, ()
        gpus = ray.get_gpu_ids()
        site = Site(task.ledger.storage.scratch(), _device(gpus), self._threads)
        self._task, self._site = task, site
        self._opened, facts = introduce(task, site)
        facts["gpu_ids"] = [str(gpu) for gpu in gpus]
        facts["cuda_visible_devices"] = os.environ.get("CUDA_VISIBLE_DEVICES")
        return facts, this_process(), ray.get_runtime_context().get_node_id()

    def run(
        self, number: int, shard: Shard, skip: Rows, mode: Mode
    ) -> tuple[Committed | None, float]:
        """Compute and commit a shard.

        Raises:
            RuntimeError: this process is another worker; nothing is computed.
        """
        if number != self._number or self._task is None or self._opened is None:
            raise RuntimeError(f"{shard} was for worker {number}, this is worker {self._number}")
        began = time.monotonic()
        try:
            done = perform(self._task, self._opened, shard, skip, self._beat, mode)
        except BaseException:
            if not self._was_told_to_leave(number):
                raise
            done = None  # its answer goes to nobody
        return done, time.monotonic() - began

    def rest(self, number: int) -> None:
        """Give up the worker's stage, its files and its memory; another worker may follow."""
        if number == self._number:
            self._close()

    @ray.method(concurrency_group="beat")  # type: ignore[untyped-decorator]
    def leave(self, number: int) -> None:
        """Do not become this worker any more, nor one before it; `rest` follows if it is.

        Its computation ends with the next batch: another worker has committed that shard.
        """
        with self._lock:
            self._left = max(self._left, number)

    @ray.method(concurrency_group="beat")  # type: ignore[untyped-decorator]
    def beats(self) -> tuple[int, int, tuple[int, ...]]:
        """The worker, the number of batches that it has begun, and the rows of the newest."""
        with self._lock:
            return self._number, self._beats, self._rows

    def _beat(self, rows: Rows) -> None:
        """Count a batch that begins.

        Raises:
            Left: nobody waits for the shard any more.
        """
        with self._lock:
            self._beats += 1
            self._rows = tuple(rows)
        if self._was_told_to_leave(self._number):
            raise Left(self._number)

    def _was_told_to_leave(self, number: int) -> bool:
        with self._lock:
            return number <= self._left

    def _close(self) -> None:
        """Free what the stage holds, also one that could not be opened."""
        if self._task is None:
            return
        opened, site = self._opened, self._site
        self._task = self._site = self._opened = None
        if opened is not None:
            opened.close()
        del opened
        if site is not None:
            shutil.rmtree(site.scratch, ignore_errors=True)
        give_memory_back()


def _device(gpus: list[Any]) -> str:
    """cuda if the actor holds a GPU that torch can use; logical GPUs compute on the CPU."""
    if not gpus:
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def death(
    worker: int, error: RayActorError | RayOutOfMemoryError, *, node_is_dead: bool
) -> Lost | Preempted | OutOfMemory:
    """The event of a worker whose node is known to be dead, or not; it may not have told it yet."""
    if isinstance(error, RayOutOfMemoryError):  # the system's own killer says no reason
        return OutOfMemory(worker, first_line(error))
    gone = node_is_dead or "its node has died" in str(error)
    if gone or getattr(error, "preempted", False):
        return Preempted(worker, str(error))
    return Lost(worker, _why(error))


def _why(error: RayActorError) -> str:
    """Why an actor ended; for one that could not begin, what was missing on its node."""
    first, *others = (line.strip() for line in str(error).splitlines() if line.strip())
    return f"{first} {others[-1]}" if others and "creation task" in first else first


IDLE_SECONDS = 60.0
"""How long a process without work waits for a task on this machine's own cluster. Then its memory
and its GPU are free; a later stage pays for another start."""
IDLE_SECONDS_JOINED = 10.0
"""The same on a cluster that was joined, where others may wait for what it holds."""


class ProcessKind(NamedTuple):
    """The resources and environment of a process, which serves only tasks of its kind.

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
    kind: ProcessKind
    actor: Any


class IdleActors:
    """Actors that wait for a task, each with what it holds of its node."""

    def __init__(self, end: Callable[[Any], None], *, seconds: float) -> None:
        """`end` ends an actor's process; a thread calls it for those that wait so many seconds."""
        self._end, self._seconds = end, seconds
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._timer: threading.Timer | None = None

    def add(self, actor: Any, kind: ProcessKind, *, ready: bool = True) -> None:
        """Keep an actor of this kind; one that is not ready still opens a stage nobody wants."""
        with self._lock:
            self._waiting.append(_Waiting(time.monotonic(), ready, kind, actor))
            self._wake_later()

    def take(self, kind: ProcessKind) -> Any | None:
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

    def make_room(self, fits: Callable[[Sequence[ProcessKind]], bool]) -> None:
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
        """No process yet; `ended` says whether the cluster has ended and Ray's calls may hang."""
        self._threads, self._local, self._ended = threads, local, ended
        self._idle = IdleActors(self.end, seconds=IDLE_SECONDS if local else IDLE_SECONDS_JOINED)

    def kind(self, needs: Needs) -> ProcessKind:
        """The kind of process that a worker with these needs takes.

        Its environment holds only the variables that the process does not inherit and Ray sets.
        """
        given = {} if self._local is None else self._local.environment
        wanted = actor_environment(self._threads)
        missing = sorted((name, to) for name, to in wanted.items() if given.get(name) != to)
        return ProcessKind(needs.num_cpus, needs.num_gpus, needs.jvm, tuple(missing))

    def take(self, kind: ProcessKind, beside: Iterable[ProcessKind]) -> Any | None:
        """An actor that waits; None if there is none, and then others made room for a new one.

        `beside` are the kinds of those at work.
        """
        idle = self._idle.take(kind)
        if idle is None:
            taken = [*beside, kind]
            self._idle.make_room(lambda others: self._fits([*taken, *others]))
        return idle

    def new(self, kind: ProcessKind) -> Any:
        """A new actor; one that does not fit yet waits in Ray's queue."""
        # Here no core is reserved, as one that waits must not hold it: `_fits` counts instead.
        num_cpus = kind.num_cpus if self._local is None else 0.0
        options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": kind.num_gpus}
        if kind.environment:
            options["runtime_env"] = {"env_vars": dict(kind.environment)}
        return Actor.options(**options).remote(self._threads)  # type: ignore[attr-defined]

    def rest(self, actor: Any, kind: ProcessKind, worker: int, *, ready: bool) -> bool:
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
        """The largest number of such workers that fit, at least 1.

        A joined cluster has no limit on GPUs: it may add nodes.
        """
        if needs.num_gpus and self._local is None:
            return 1 << 30
        have: Mapping[str, float] = ray.cluster_resources()
        fits = [have.get("CPU", 0) / needs.num_cpus] if needs.num_cpus else []
        fits += [have.get("GPU", 0) / needs.num_gpus] if needs.num_gpus else []
        return max(1, int(min(fits, default=1)))

    def _fits(self, kinds: Sequence[ProcessKind]) -> bool:
        """Whether all of these have room; unknown where other drivers work too.

        One stage works at a time, so as many processes may wait as there are cores to work on.
        """
        if self._local is None:
            return False
        have: Mapping[str, float] = ray.cluster_resources()
        cpus, gpus = sum(kind.num_cpus for kind in kinds), sum(kind.num_gpus for kind in kinds)
        return cpus <= 2 * have.get("CPU", 0) and gpus <= have.get("GPU", 0)
