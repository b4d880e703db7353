"""A backend with one worker in this process, for laptops and crash tests."""

import shutil
import time

from raypipe.cluster.backend import Done, Event, Failed, Mode, Ready, Task
from raypipe.cluster.worker import introduce, perform
from raypipe.stages.stage import Needs, Opened, Rows, Site
from raypipe.storage.records import Shard


class InlineBackend:
    """Computes each shard inside `wait`; an error of the stage becomes Failed."""

    def __init__(self, *, device: str = "cpu", threads: int = 1) -> None:
        """One worker on `device`."""
        self._device, self._threads = device, threads
        self._task: Task | None = None
        self._site: Site | None = None
        self._opened: Opened | None = None
        self._started = 0
        self._queue: list[tuple[Shard, Rows, Mode] | None] = []
        """Work for `wait`, the next first: a shard, or None to open the stage."""

    def start(self, task: Task) -> int:
        """Take the task and return a new number. The next `wait` opens the stage."""
        self._task = task
        self._site = Site(task.ledger.storage.scratch(), self._device, self._threads)
        self._started += 1
        self._queue.append(None)
        return self._started

    def submit(self, worker: int, shard: Shard, skip: Rows, mode: Mode) -> None:
        """Queue the shard, which a later `wait` computes."""
        self._queue.append((shard, skip, mode))

    def wait(self, seconds: float) -> list[Event]:
        """Open the stage or compute one shard, whichever is next, and return its event."""
        if not self._queue:
            return []
        work = self._queue.pop(0)
        if work is None:
            return [self._open()]
        assert self._task is not None and self._opened is not None
        (shard, skip, mode), began = work, time.monotonic()
        try:
            done = perform(self._task, self._opened, shard, skip, lambda rows: None, mode)
        except Exception as error:  # becomes an event; the loop decides and raises
            return [Failed(self._started, shard, error)]
        return [Done(self._started, shard, done, time.monotonic() - began)]

    def kill(self, worker: int) -> None:
        """Close the stage and delete its scratch folder. Between shards nothing is running."""
        self._queue.clear()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
        if self._site is not None:
            shutil.rmtree(self._site.scratch, ignore_errors=True)

    def release(self, worker: int) -> None:
        """End the worker, since its process has no other task."""
        self.kill(worker)

    def end_idle(self) -> None:
        """Do nothing: no process waits for another task."""

    def capacity(self, needs: Needs) -> int:
        """One."""
        return 1

    def now(self) -> float:
        """Seconds on this process's monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """End the worker."""
        self.kill(self._started)

    def _open(self) -> Event:
        assert self._task is not None and self._site is not None
        try:
            self._opened, facts = introduce(self._task, self._site)
            return Ready(self._started, facts)
        except Exception as error:  # becomes an event; the loop decides and raises
            return Failed(self._started, None, error)
