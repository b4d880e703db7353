"""A child that outlives its driver by a second, to end what Ray leaves running.

Ray's daemons die with the driver that started them, but its agents look for their parent only
now and then, so a killed driver would leave processes behind for longer than a rerun waits.
`python -m raypipe.cluster.reaper PID` keeps a list of PID's descendants and, when its standard
input closes, which happens however the driver ends, kills those that still run.
"""

import select
import subprocess
import sys
import threading

import psutil

LOOK_SECONDS = 0.5


class Reaper:
    """Keeps one such child running until `close`; a child that is killed is replaced."""

    def __init__(self) -> None:
        """For the processes below this one."""
        self._closing = False
        self._child = self._start()
        self._thread = threading.Thread(target=self._watch, name="reaper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the child, which ends what is left."""
        self._closing = True
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._thread.join(timeout=10)

    def _start(self) -> subprocess.Popen[bytes]:
        own = psutil.Process().pid
        command = [sys.executable, "-m", "raypipe.cluster.reaper", str(own)]
        # A session of its own: Ctrl-C is for the driver.
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def _watch(self) -> None:
        self._child.wait()
        while not self._closing:
            self._child = self._start()
            self._child.wait()


def reap(driver: psutil.Process) -> None:
    """Until standard input closes: remember the driver's descendants; then end them."""
    known: set[psutil.Process] = set()
    own = psutil.Process()
    while not select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
        known |= _below(driver)
        known = {process for process in known if process.is_running()}
    for process in list(known):
        known |= _below(process)
    for process in known - {own}:
        try:
            process.kill()  # psutil compares start times: a reused id is another process
        except psutil.NoSuchProcess:
            continue


def _below(process: psutil.Process) -> set[psutil.Process]:
    try:
        return set(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


if __name__ == "__main__":
    reap(psutil.Process(int(sys.argv[1])))
