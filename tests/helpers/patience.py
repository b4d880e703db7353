"""Waits that have no limit of their own: a test that hangs is ended by pytest-timeout."""

import time
from contextlib import suppress

import psutil


def until(condition):
    """Return once the condition holds, whatever the load of the machine."""
    while not condition():
        time.sleep(0.01)


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more; a zombie has ended."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def await_ends(processes):
    """Return once all of them have ended."""
    until(lambda: all(has_ended(process) for process in processes))


def end_all(processes):
    """Kill those that still run."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
