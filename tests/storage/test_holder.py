import dataclasses
import signal
import subprocess
import sys
import time

import pytest

from raypipe.storage.holder import Life, this_process, wait_until_dead


@pytest.mark.parametrize(
    ("change", "life"),
    [
        ({}, Life.ALIVE),
        ({"start_time": 1.0}, Life.DEAD),
        ({"boot_id": "another boot"}, Life.DEAD),
        ({"host": "elsewhere"}, Life.UNKNOWN),
        ({"pid_namespace": "pid:[1]"}, Life.UNKNOWN),
        ({"host": "elsewhere", "boot_id": "another boot"}, Life.UNKNOWN),
    ],
)
def test_what_can_be_proved_of_a_process(change, life):
    assert dataclasses.replace(this_process(), **change).life() is life


def test_a_killed_but_unreaped_process_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    process = dataclasses.replace(this_process(), pid=child.pid, start_time=0.0)
    while process.life() is not Life.DEAD and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.life() is Life.DEAD
    child.wait()


def test_processes_that_do_not_end_are_named_after_the_wait():
    assert wait_until_dead([this_process()], 0.2) == [this_process()]
