"""A reaper that is killed, that closes, and whose processes it takes for its own."""

import json
import os
import subprocess
import sys

import psutil
import pytest

from raypipe.cluster import reaper as reaper_module

CLOSING = """
import json, os, psutil, subprocess, sys, time
from raypipe.cluster.reaper import MARK, Reaper
reaper = Reaper()
mark = os.environ[MARK]
first = reaper._child
os.kill(first.pid, 9)
deadline = time.monotonic() + 20
while reaper._child is first and time.monotonic() < deadline:
    time.sleep(0.02)
second = reaper._child
sleeper = subprocess.Popen(["sleep", "300"])
sys.argv[1:] and os.environ.update({MARK: "another"})
reaper.close()
print(json.dumps([mark.split("-")[0] == str(os.getpid()), second is not first,
                  second.poll() is not None, reaper._thread.is_alive(), sleeper.wait(timeout=10),
                  os.environ.get(MARK), reaper._child is second]))
"""


@pytest.mark.parametrize("later", [[], ["later"]])
def test_a_reaper_that_is_killed_is_replaced_and_closing_ends_what_is_left(later):
    command = [sys.executable, "-c", CLOSING, *later]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=100)
    told = json.loads(done.stdout)
    # A mark that is not its own any more is left alone.
    assert told == [True, True, True, False, -9, "another" if later else None, True]


def test_processes_with_another_mark_are_not_this_drivers(monkeypatch):
    monkeypatch.delenv(reaper_module.MARK, raising=False)
    assert reaper_module._marked() == set()
    monkeypatch.setenv(reaper_module.MARK, f"test-{os.getpid()}")
    child = subprocess.Popen(["sleep", "300"])
    try:
        found = {process.pid for process in reaper_module._marked()}
        assert found == {child.pid}
        assert child.pid in {p.pid for p in reaper_module._descendants(psutil.Process())}
    finally:
        child.kill()
        gone = psutil.Process(child.pid)
        child.wait()
    assert reaper_module._descendants(gone) == set()
