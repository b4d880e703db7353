"""One worker process as a Ray actor, which serves stage after stage, and what its death is.

Ray never restarts it.
"""

import os
import shutil
import threading
import time
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError as RayOutOfMemoryError
from ray.exceptions import RayActorError

from raypipe.cluster.backend import (
    Committed,
    Lost,
    Mode,
    Opened,
    OutOfMemory,
    Preempted,
    Rows,
    Site,
    Task,
)
from raypipe.cluster.worker import introduce, perform
from raypipe.errors import first_line
from raypipe.models.machine.memory import give_memory_back
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

        What it computes ends with its next batch: another worker has committed that shard.
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
