"""The work inside a worker: it introduces itself, computes and commits; and the worker that is this
process, for laptops and crash tests."""

import json
import os
import platform
import shutil
import time
from collections.abc import Mapping

from raypipe.cluster.backend import Committed, Done, Event, Failed, Mode, Ready, Task
from raypipe.cluster.failures import evidence_name
from raypipe.errors import LEAVE_INPUTS, InputError
from raypipe.package import VERSION, package_sha256
from raypipe.stages.stage import Beat, Needs, Opened, Rows, Site
from raypipe.storage.records import Json, Shard


def introduce(task: Task, site: Site) -> tuple[Opened, dict[str, Json]]:
    """The opened stage, and facts of this worker: versions, package hash, numerics class.

    Raises:
        InputError: this worker sees another folder of stores than the driver, or other input files
            or packages.
    """
    name, content = task.nonce
    if name:
        _answer(task, name, content)
    _check_spec(task, "when the driver began")
    opened = task.stage.open(site)
    return opened, {**worker_facts(), **opened.facts}


def worker_facts() -> dict[str, Json]:
    """This process's versions of Python and raypipe, and the hash of raypipe's source."""
    return {
        "python": platform.python_version(),
        "raypipe": VERSION,
        "package_sha256": package_sha256(),
    }


def perform(
    task: Task, opened: Opened, shard: Shard, skip: Rows, beat: Beat, mode: Mode = Mode.PLAIN
) -> Committed | None:
    """The committed record of a shard computed here; no data pass through the driver.

    A probe commits nothing and returns None.

    Raises:
        InputError: an input changed while it was read; nothing is committed.
    """
    began = cpu_seconds()
    if mode is not Mode.PLAIN:
        beat = _written(task, shard, beat)
    payload = opened.run(shard, skip, beat)
    if mode is Mode.PROBE:
        payload.path.unlink(missing_ok=True)
        return None
    if any(name.startswith("content:") for name in task.ledger.spec.inputs):
        _check_spec(task, "before this shard was computed")
    facts: Mapping[str, Json] = payload.facts
    if skip:
        facts = {**facts, "skipped_rows": sorted(skip)}
    record = task.ledger.commit(shard, payload.path, facts)
    spent = cpu_seconds() - began
    took = (payload.num_copied, payload.num_tokens, spent, payload.computing_seconds)
    return Committed(record, *took)


def cpu_seconds() -> float:
    """CPU time of this process on all its threads, and of its children that have ended."""
    return sum(os.times()[:4])


def _check_spec(task: Task, when: str) -> None:
    """Checks that the spec, computed here and now, is the spec of the store."""
    changes = task.ledger.spec.diff(task.stage.spec)
    if changes:
        raise InputError(
            f"{platform.node()}: {task.ledger.store}: expected the same inputs as {when}, found "
            f"{'; '.join(map(str, changes))}. Every node must see the same input files and "
            f"packages. {LEAVE_INPUTS}"
        )


def _written(task: Task, shard: Shard, beat: Beat) -> Beat:
    """A heartbeat that first records its rows, for the driver to find if this process dies."""
    name = evidence_name(task.ledger, shard)
    task.ledger.storage.replace(name, b"[]")  # clears what an earlier, preempted try left

    def beat_and_write(rows: Rows) -> None:
        task.ledger.storage.replace(name, json.dumps([int(row) for row in rows]).encode())
        beat(rows)

    return beat_and_write


def _answer(task: Task, name: str, content: str) -> None:
    uri = task.ledger.storage.uri
    try:
        word = task.ledger.storage.read(name)
        if word != content.encode():  # its reply may have arrived damaged
            word = task.ledger.storage.read(name)
        text = word.decode(errors="replace")
    except FileNotFoundError:
        if task.ledger.manifest() is not None:
            return  # others have computed all before this worker came: the driver took it back
        text = "no such file"
    if text != content:
        raise InputError(
            f"{platform.node()}: {uri}/{name}: expected the driver's nonce, found "
            f"{text!r}. The stores must be one folder that every node mounts at the same path, "
            "or a bucket (recipe key `stores`)."
        )


class InlineBackend:
    """The backend with one worker, in this process; a shard is computed inside `wait`.

    An error of the stage becomes Failed.
    """

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
