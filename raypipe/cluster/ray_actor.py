"""One worker as a Ray actor, never restarted by Ray."""

import os
import threading
import time
from typing import Any

import ray

from raypipe.cluster.backend import Committed, Mode, Opened, Rows, Site, Task
from raypipe.cluster.worker import give_memory_back, introduce, perform
from raypipe.storage.holder import Process, this_process
from raypipe.storage.records import Json, Shard


@ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups={"beat": 1})
class Actor:
    """One worker; a separate thread answers requests for heartbeats while a shard is computed."""

    def __init__(self, threads: int) -> None:
        """Has no task yet."""
        self._threads = threads
        self._task: Task | None = None
        self._opened: Opened | None = None
        self._lock = threading.Lock()
        self._beats = 0
        self._rows: tuple[int, ...] = ()

    def open(self, task: Task) -> tuple[dict[str, Json], Process, str]:
        """Load the task's stage; returns facts, process and node."""
        self._task = task
        with self._lock:
            self._beats, self._rows = 0, ()
        gpus = ray.get_gpu_ids()
        site = Site(task.ledger.storage.scratch(), _device(gpus), self._threads)
        self._opened, facts = introduce(task, site)
        facts["gpu_ids"] = [str(gpu) for gpu in gpus]
        facts["cuda_visible_devices"] = os.environ.get("CUDA_VISIBLE_DEVICES")
        return facts, this_process(), ray.get_runtime_context().get_node_id()

    def run(self, shard: Shard, skip: Rows, mode: Mode) -> tuple[Committed | None, float]:
        """Compute and commit a shard."""
        assert self._task is not None and self._opened is not None
        began = time.monotonic()
        done = perform(self._task, self._opened, shard, skip, self._beat, mode)
        return done, time.monotonic() - began

    def rest(self) -> None:
        """Give up the task and its memory; the next one may follow."""
        self._task = self._opened = None
        give_memory_back()

    @ray.method(concurrency_group="beat")  # type: ignore[untyped-decorator]
    def beats(self) -> tuple[int, tuple[int, ...]]:
        """The number of batches begun, and the rows of the newest."""
        with self._lock:
            return self._beats, self._rows

    def _beat(self, rows: Rows) -> None:
        with self._lock:
            self._beats += 1
            self._rows = tuple(rows)


def _device(gpus: list[Any]) -> str:
    """cuda if the actor holds a GPU that torch can use; logical GPUs compute on the CPU."""
    if not gpus:
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
