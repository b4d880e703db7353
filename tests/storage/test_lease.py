"""Leases: the living are refused, the provably dead succeeded at once, the unknown watched."""

import dataclasses
import os
import subprocess
import sys
import threading

import pytest
from left_leases import NAME, dead, leave

from raypipe.errors import RefusedError
from raypipe.storage import lease as lease_module
from raypipe.storage.holder import Life, this_process
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.records import seal


@pytest.mark.fault(45, "a lease in use is refused with its process, and free once it is released")
def test_a_live_lease_is_refused(storage):
    held = acquire(storage, NAME)
    with pytest.raises(RefusedError, match=f"process {os.getpid()}"):
        acquire(storage, NAME)
    held.release()
    acquire(storage, NAME).release()
    assert lease_state(storage, NAME).generation == 2


def test_a_provably_dead_holder_is_succeeded_at_once(storage):
    leave(storage, dead())
    held = acquire(storage, NAME, watch_seconds=1000)
    assert held.generation == 2
    held.release()


@pytest.mark.fault(13, "of 8 that want to succeed a dead holder at once, 1 does and 7 are refused")
def test_of_many_successors_one_wins(storage):
    leave(storage, dead())
    gate, won, refused = threading.Barrier(8), [], []

    def succeed():
        gate.wait()
        try:
            won.append(acquire(storage, NAME))
        except RefusedError:
            refused.append(1)

    threads = [threading.Thread(target=succeed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(refused)) == (1, 7)
    won[0].release()


def test_a_holder_that_died_between_claim_and_renewal_is_succeeded(storage):
    leave(storage, dead())
    claim = {"holder": dead().to_json(), "processes": []}
    storage.create(f"{NAME}.d/0000002.json", seal(claim))
    held = acquire(storage, NAME)
    assert held.generation == 3
    held.release()


def test_the_old_holders_processes_are_waited_for(storage, monkeypatch):
    monkeypatch.setattr(lease_module, "WAIT_FOR_PROCESSES_SECONDS", 600.0)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.7)"])
    from raypipe.storage.holder import _start_time

    worker = dataclasses.replace(
        this_process(), pid=child.pid, start_time=_start_time(child.pid) or 0.0
    )
    leave(storage, dead(), processes=[worker])
    held = acquire(storage, NAME)
    assert worker.life() is Life.DEAD
    held.release()
    child.wait()
