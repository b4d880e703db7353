"""What a killed driver leaves behind ends, however late it began and whoever its parent was."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from patience import has_ended, until

from raypipe.cluster import reaper
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


@pytest.mark.fault(2, "a process born just before the driver's end is ended")
def test_an_orphan_born_just_before_the_drivers_end_is_ended():
    try:
        orphan = left_behind("reaper = Reaper()")
    except psutil.NoSuchProcess:
        return  # it was ended before it could be looked at
    until(lambda: has_ended(orphan))


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
        reaper = subprocess.run(command, env=marked, stdin=subprocess.DEVNULL)
        assert reaper.returncode == 0
        assert left.wait() == -signal.SIGKILL
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
        reaper = subprocess.run(command, env=unmarked, stdin=subprocess.DEVNULL)
        assert reaper.returncode == 0
        assert left.wait() == -signal.SIGKILL
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
        until(lambda: reaper._child is not first)
        assert _identity(psutil.Process(sleeper.pid)) in reaper._child.args
    finally:
        reaper.close()
    assert sleeper.wait() == -signal.SIGKILL


CLOSING = """
import json, os, psutil, subprocess, sys, time
from raypipe.cluster.reaper import MARK, Reaper
reaper = Reaper()
mark = os.environ[MARK]
first = reaper._child
os.kill(first.pid, 9)
while reaper._child is first:
    time.sleep(0.02)
second = reaper._child
sleeper = subprocess.Popen(["sleep", "300"])
sys.argv[1:] and os.environ.update({MARK: "another"})
reaper.close()
print(json.dumps([mark.split("-")[0] == str(os.getpid()), second is not first,
                  second.poll() is not None, reaper._thread.is_alive(), sleeper.wait(),
                  os.environ.get(MARK), reaper._child is second]))
"""


@pytest.mark.fault(
    5, "closing ends every process below the driver, also after the reaper itself was killed"
)
@pytest.mark.parametrize("later", [[], ["later"]])
def test_a_reaper_that_is_killed_is_replaced_and_closing_ends_what_is_left(later):
    command = [sys.executable, "-c", CLOSING, *later]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(done.stdout)
    # A mark that is not its own any more is left alone.
    assert told == [True, True, True, False, -9, "another" if later else None, True]


def test_processes_with_another_mark_are_not_this_drivers(monkeypatch):
    monkeypatch.delenv(reaper.MARK, raising=False)
    assert reaper._marked() == set()
    monkeypatch.setenv(reaper.MARK, f"test-{os.getpid()}")
    child = subprocess.Popen(["sleep", "300"])
    try:
        while not psutil.Process(child.pid).environ():
            pass  # Popen returns before Linux has written down what the new program was given
        found = {process.pid for process in reaper._marked()}
        assert found == {child.pid}
        assert child.pid in {p.pid for p in reaper._descendants(psutil.Process())}
    finally:
        child.kill()
        gone = psutil.Process(child.pid)
        child.wait()
    assert reaper._descendants(gone) == set()


def test_a_reaper_that_cannot_start_is_tried_a_few_times_and_then_given_up(monkeypatch, caplog):
    monkeypatch.setattr(reaper, "PAUSES", (0.0, 0.1))
    monkeypatch.setattr(
        reaper, "python_command", lambda *words: [sys.executable, "-c", "raise SystemExit(7)"]
    )
    before = time.monotonic()
    failing = Reaper()
    failing._thread.join()
    assert time.monotonic() - before >= 0.1
    failing.close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert all("ended with code 7; another starts" in line for line in said[:2])
    assert "has ended 3 times in a row, the last time with code 7, and is not started" in said[2]


def test_a_reaper_that_ran_for_a_while_is_replaced_without_end(monkeypatch):
    monkeypatch.setattr(reaper, "PAUSES", (0.0,))
    monkeypatch.setattr(reaper, "STEADY_SECONDS", 0.0)
    kept = Reaper()
    for _ in range(3):
        child = kept._child
        child.kill()
        until(lambda child=child: kept._child is not child)
    kept.close()
