"""Leases under clocks that are wrong or jump: only renewals and the monotonic clock count."""

import itertools
import time

import psutil
import pytest
from left_leases import NAME, elsewhere, leave, renew

from raypipe.errors import RefusedError
from raypipe.storage import lease as leases
from raypipe.storage.holder import Life
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.posix import PosixStorage

DAY = 86_400.0


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path)


@pytest.fixture(params=[[DAY], [-DAY], [DAY, -DAY]], ids=["ahead", "behind", "jumping"])
def clock(request, monkeypatch):
    """The time of day is off, or off by another day at each look."""
    offsets, real = itertools.cycle(request.param), time.time
    monkeypatch.setattr(time, "time", lambda: real() + next(offsets))
    boot, moved = psutil.boot_time, itertools.cycle(request.param)
    monkeypatch.setattr(psutil, "boot_time", lambda: boot() + next(moved))


@pytest.mark.fault(15, "3 of 3 wrong clocks: a living holder is alive and refuses, 0 takeovers")
def test_a_living_holder_stays_one(storage, clock):
    held = acquire(storage, NAME)
    for _ in range(3):
        assert lease_state(storage, NAME).life() is Life.ALIVE
        with pytest.raises(RefusedError, match="is working here"):
            acquire(storage, NAME)
    assert not held.lost
    held.release()


@pytest.mark.fault(15, "3 of 3 wrong clocks: who renews elsewhere is not succeeded")
def test_one_that_renews_elsewhere_is_not_succeeded(storage, clock):
    leave(storage, elsewhere())
    renewing = {"watch_seconds": 600, "on_watch": lambda found: renew(storage, elsewhere(), 6)}
    with pytest.raises(RefusedError, match="elsewhere"):
        acquire(storage, NAME, **renewing)


@pytest.mark.fault(15, "3 of 3 wrong clocks: who does not renew is watched to the end first")
def test_one_that_does_not_renew_is_watched_for_the_whole_time(storage, clock, monkeypatch):
    leave(storage, elsewhere())
    monkeypatch.setattr(leases, "RENEW_SECONDS", 60.0)
    began = time.monotonic()
    held = acquire(storage, NAME, watch_seconds=0.4)
    assert time.monotonic() - began >= 0.4 and held.generation == 2
    held.release()
