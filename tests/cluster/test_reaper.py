"""What a killed driver leaves behind ends, however late it began and whoever its parent was."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil

from raypipe.cluster.reaper import MARK, Reaper, _identity

DRIVER = """
import os, signal, subprocess, sys
from raypipe.cluster.reaper import Reaper
{mark}
orphan = "import subprocess as s; p = s.Popen(['sleep', '300'], stdout=s.DEVNULL); "
orphan += "print(p.pid, flush=True)"
subprocess.run([sys.executable, "-c", orphan], start_new_session=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def left_behind(mark):
    driver = DRIVER.replace("{mark}", mark)
    done = subprocess.run([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True)
    return psutil.Process(int(done.stdout))


def test_an_orphan_born_just_before_the_drivers_end_is_ended():
    try:
        orphan = left_behind("reaper = Reaper()")
    except psutil.NoSuchProcess:
        return  # it was ended before it could be looked at
    deadline = time.monotonic() + 10
    while orphan.is_running() and time.monotonic() < deadline:
        if orphan.status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    assert not orphan.is_running()


def test_without_a_reaper_it_would_run_on():
    orphan = left_behind("")
    time.sleep(1)
    assert orphan.is_running()
    orphan.kill()


def test_a_driver_that_was_gone_before_its_reaper_was_up_leaves_nothing_either():
    """A reaper that was killed is replaced, and its driver may die before the new one runs."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    marked = {**os.environ, MARK: f"{gone.pid}-mark"}
    left = subprocess.Popen(["sleep", "300"], env=marked)
    other = subprocess.Popen(["sleep", "300"], env={**marked, MARK: "another"})
    try:
        command = [sys.executable, "-m", "raypipe.cluster.reaper", str(gone.pid)]
        reaper = subprocess.run(command, env=marked, stdin=subprocess.DEVNULL, timeout=60)
        assert reaper.returncode == 0
        assert left.wait(timeout=10) == -signal.SIGKILL
        assert other.poll() is None, "it descends from another driver"
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


def test_a_reaper_that_replaces_another_knows_at_once_what_its_driver_has_below():
    """By number and start, not by the mark: Ray's agents write their titles over it."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    left, other = (subprocess.Popen(["sleep", "300"], env=unmarked) for _ in range(2))
    try:
        named = _identity(psutil.Process(left.pid))
        earlier = {**json.loads(_identity(psutil.Process(other.pid))), "start_time": 1.5}
        command = [sys.executable, "-m", "raypipe.cluster.reaper", str(gone.pid)]
        command += [named, json.dumps(earlier)]
        reaper = subprocess.run(command, env=unmarked, stdin=subprocess.DEVNULL, timeout=60)
        assert reaper.returncode == 0
        assert left.wait(timeout=10) == -signal.SIGKILL
        assert other.poll() is None, "another process has that number now"
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


def test_what_is_below_a_driver_is_told_to_the_reaper_that_replaces_another():
    reaper = Reaper()
    sleeper = subprocess.Popen(["sleep", "300"])
    try:
        first = reaper._child
        first.kill()
        deadline = time.monotonic() + 10
        while reaper._child is first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert _identity(psutil.Process(sleeper.pid)) in reaper._child.args
    finally:
        reaper.close()
    assert sleeper.wait(timeout=10) == -signal.SIGKILL
