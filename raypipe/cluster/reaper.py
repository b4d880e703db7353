"""A child process that outlives its driver by a second, to end what Ray leaves running.

Ray's daemons die with the driver that started them, but its agents check for their parent only
occasionally, so a killed driver would leave processes behind for longer than a rerun waits.
`raypipe.cluster.reaper PID` keeps a list of PID's descendants. When its standard input closes,
which happens however the driver ends, it kills those that still run. A process that began between
the last look and the driver's end is recognised by MARK in its environment, which descendants
inherit.
"""

import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence

import psutil

from raypipe.isolation import child_environment, python_command
from raypipe.storage.holder import Life, Process, running_process

LOOK_SECONDS = 0.5
LAST_LOOKS = 4
MARK = "RAYPIPE_DESCENDS_FROM"
PAUSES = (0.0, 1.0, 5.0, 30.0)
"""Seconds before the first, second .. replacement in a row; then there is no other."""
STEADY_SECONDS = 60.0
"""A child that ran so long begins a new row."""
log = logging.getLogger(__name__)


class Reaper:
    """Keeps one such child running until `close`; a killed child is replaced, within limits."""

    def __init__(self) -> None:
        """Starts a child that watches the descendants of this process."""
        self._closing = threading.Event()
        self._mark = f"{psutil.Process().pid}-{uuid.uuid4().hex}"
        os.environ[MARK] = self._mark
        self._child = self._start()
        self._thread = threading.Thread(target=self._watch, name="reaper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the child, which first ends the remaining processes."""
        self._closing.set()
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._thread.join(timeout=10)
        if os.environ.get(MARK) == self._mark:
            del os.environ[MARK]

    def _start(self) -> subprocess.Popen[bytes]:
        own = psutil.Process()
        command = python_command("raypipe.cluster.reaper", str(own.pid))
        # This is for a reaper that replaces another: the driver may die before the new one has
        # looked for the first time, and Ray's agents overwrite the environment with their titles.
        command += [text for process in _descendants(own) if (text := _identity(process))]
        # It has its own session: Ctrl-C is for the driver.
        return subprocess.Popen(
            command, env=child_environment(), stdin=subprocess.PIPE, start_new_session=True
        )

    def _watch(self) -> None:
        in_a_row = 0
        while True:
            began = time.monotonic()
            code = self._child.wait()
            in_a_row = 1 if time.monotonic() - began > STEADY_SECONDS else in_a_row + 1
            if self._closing.is_set():
                return
            if in_a_row > len(PAUSES):
                log.warning(
                    "the process that ends what a killed driver leaves behind has ended %d times "
                    "in a row, the last time with code %d, and is not started again; if this "
                    "driver is killed, Ray's processes may run on for a minute",
                    in_a_row,
                    code,
                )
                return
            pause = PAUSES[in_a_row - 1]
            log.warning(
                "the process that ends what a killed driver leaves behind has ended with code %d; "
                "another starts in %g s",
                code,
                pause,
            )
            if self._closing.wait(pause):
                return
            self._child = self._start()


def reap(pid: int, identities: Sequence[str] = ()) -> None:
    """Remember the driver's descendants until standard input closes; then end them.

    If the driver ended before this process had started, the processes in `identities` and those
    with its mark are left.
    """
    known = {process for identity in identities if (process := _process_of(identity))}
    own = psutil.Process()
    try:
        driver = psutil.Process(pid)
    except psutil.NoSuchProcess:
        driver = own  # standard input is closed: do not look below it
    while not select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
        known |= _descendants(driver)
        known = {process for process in known if process.is_running()}
    for _ in range(LAST_LOOKS):  # a dying raylet may still be forking
        for process in list(known):
            known |= _descendants(process)
        living = {process for process in known | _marked() if process.is_running()} - {own, driver}
        for process in living:
            try:
                process.kill()  # psutil compares start times: a reused id is another process
            except psutil.NoSuchProcess:
                continue
        known |= living
        time.sleep(LOOK_SECONDS / 8)


def _identity(process: psutil.Process) -> str:
    """The process's `storage.holder.Process` as JSON; empty if it has ended."""
    identity = running_process(process.pid)
    if identity is None or not process.is_running():  # another process may have its number by now
        return ""
    return json.dumps(identity.to_json())


def _process_of(identity: str) -> psutil.Process | None:
    """The process; None if it has ended, even if another one has its number now."""
    named = Process.from_json(json.loads(identity))
    try:
        process = psutil.Process(named.pid)
    except psutil.NoSuchProcess:
        return None
    return process if named.life() is Life.ALIVE else None


def _marked() -> set[psutil.Process]:
    """Processes started with this one's mark, which only descendants of one driver have."""
    mark = os.environ.get(MARK)
    processes = set()
    for process in psutil.process_iter():
        try:
            if mark is not None and process.environ().get(MARK) == mark:
                processes.add(process)
        except psutil.Error:
            continue  # it has ended, or belongs to another user
    return processes


def _descendants(process: psutil.Process) -> set[psutil.Process]:
    try:
        return set(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


if __name__ == "__main__":
    reap(int(sys.argv[1]), sys.argv[2:])
