import dataclasses
import os
import signal
import subprocess
import sys

import pytest
from patience import until

from raypipe.storage import holder
from raypipe.storage.holder import (
    Life,
    Process,
    label_is_dead,
    process_label,
    this_process,
    wait_until_dead,
)
from raypipe.storage.posix import PosixStorage


@pytest.mark.parametrize(
    ("change", "life"),
    [
        ({}, Life.ALIVE),
        ({"start_time": 1.0}, Life.DEAD),
        ({"boot_id": "another boot"}, Life.UNKNOWN),
        ({"host": "elsewhere"}, Life.UNKNOWN),
        ({"pid_namespace": "pid:[1]"}, Life.UNKNOWN),
        ({"host": "elsewhere", "boot_id": "another boot"}, Life.UNKNOWN),
    ],
)
def test_what_can_be_proved_of_a_process(change, life):
    assert dataclasses.replace(this_process(), **change).life() is life


def test_a_process_finds_itself_once_and_a_child_of_it_anew(monkeypatch):
    before = this_process()
    monkeypatch.setattr(holder, "running_process", None)  # whoever asks again fails
    assert this_process() is before
    monkeypatch.undo()
    child = os.fork()
    if child == 0:
        forgotten = holder._found.cache_info().currsize == 0
        os._exit(0 if forgotten and this_process().pid == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_killed_but_unreaped_process_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    child.send_signal(signal.SIGKILL)
    process = dataclasses.replace(this_process(), pid=child.pid, start_time=0.0)
    until(lambda: process.life() is Life.DEAD)
    child.wait()


def test_processes_that_do_not_end_are_named_after_the_wait():
    assert wait_until_dead([this_process()], 0.2) == [this_process()]


def test_the_living_are_told_after_the_wait_and_the_dead_at_once():
    dead = Process("x", "y", "z", 1, 1.0)
    gone = Process(**{**this_process().to_json(), "start_time": 1.0})
    assert wait_until_dead([], 60) == [] and wait_until_dead([gone], 60) == []
    assert this_process() in wait_until_dead([this_process(), gone], 0.05)
    assert Process.from_json(dead.to_json()) == dead and str(dead) == "process 1 on x"


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path)


def another_place(label):
    """The label as another host would write it, of a process that does not live here."""
    kind, _, start, place = label.split("-")
    return f"{kind}-999999999-{start}-{'0' * len(place)}"


def test_a_label_of_another_host_is_never_dead():
    own = process_label()
    assert not label_is_dead(own)
    assert not label_is_dead(another_place(own))
    kind, pid, start, place = own.split("-")
    assert label_is_dead(f"{kind}-999999999-{start}-{place}")
    assert label_is_dead(f"{kind}-{pid}-{int(start) + 1}-{place}"), "the id was used again"
    assert not label_is_dead("store-1-2-3") and not label_is_dead("toy")


@pytest.mark.parametrize("owner", [None, "store"])
def test_sweep_leaves_what_another_hosts_process_makes(storage, owner):
    label = another_place(process_label())
    (PosixStorage(storage.root, label).scratch() / "half").write_bytes(b"x")
    (PosixStorage(storage.root, owner).scratch() / "half").write_bytes(b"x")
    PosixStorage(storage.root, owner).sweep()
    (left,) = [path for path in storage.root.rglob("half")]
    assert left.relative_to(storage.root).parts[:2] == ("tmp", label)
