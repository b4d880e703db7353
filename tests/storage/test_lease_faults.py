"""Leases on storage that fails for a moment, loses answers, or was copied with its host's name."""

import dataclasses
import os
import subprocess
import sys
import time

import pytest
from left_leases import NAME, dead, leave
from patience import until

from raypipe.errors import RefusedError, StorageError
from raypipe.storage import lease as leases
from raypipe.storage.holder import _start_time, this_process
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import seal


@pytest.mark.fault(9, "a lease whose renewal fails 3 times is renewed on, and not lost")
@pytest.mark.parametrize("failure", [OSError, StorageError])
def test_a_renewal_that_fails_is_tried_again(storage, monkeypatch, failure):
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.02)
    held, replace, failures = acquire(storage, NAME), type(storage).replace, []

    def failing(place, name, data):
        if len(failures) < 3:
            failures.append(name)
            raise failure("the storage does not answer")
        replace(place, name, data)

    monkeypatch.setattr(type(storage), "replace", failing)
    until(lambda: len(failures) == 3)
    before = lease_state(storage, NAME).counter
    until(lambda: lease_state(storage, NAME).counter > before + 1)
    assert not held.lost
    held.release()


def test_a_damaged_renewal_admits_no_second_holder(storage, monkeypatch):
    for _ in range(3):
        acquire(storage, NAME).release()
    monkeypatch.setattr(leases, "RENEW_SECONDS", 60.0)
    held = acquire(storage, NAME)
    data = bytearray(storage.read(NAME))
    data[20] ^= 1
    storage.replace(NAME, bytes(data))
    assert lease_state(storage, NAME).generation == held.generation == 4
    with pytest.raises(RefusedError, match="is working here"):
        acquire(storage, NAME)
    held.release()


@pytest.mark.parametrize("field", ["boot_id", "host", "pid_namespace"])
def test_a_holder_of_another_boot_with_the_same_name_is_watched(storage, field):
    other = dataclasses.replace(this_process(), **{field: "another"})
    leave(storage, other)
    watched = []
    began = time.monotonic()
    held = acquire(storage, NAME, watch_seconds=0.3, on_watch=watched.append)
    assert [state.holder for state in watched] == [other] and time.monotonic() - began >= 0.3
    held.release()


def test_a_holder_that_was_watched_once_is_not_watched_again(storage):
    other = dataclasses.replace(this_process(), host="elsewhere")
    gone, watched = set(), []
    for name in ("a/f/lease.json", "b/f/lease.json"):
        claim = seal({"holder": other.to_json(), "processes": []})
        storage.create(f"{name}.d/0000001.json", claim)
        lease = acquire(storage, name, watch_seconds=0.2, on_watch=watched.append, gone=gone)
        lease.release()
    assert len(watched) == 1 and gone == {other}


def test_a_released_lease_says_nothing_of_its_holder(storage):
    gone = set()
    acquire(storage, NAME, gone=gone).release()
    acquire(storage, NAME, gone=gone).release()
    assert gone == set()


@pytest.fixture
def worker():
    """A process that works for a dead holder, and how it is known."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    yield (
        child,
        dataclasses.replace(this_process(), pid=child.pid, start_time=_start_time(child.pid)),
    )
    child.kill()
    child.wait()


def test_workers_of_a_dead_holder_keep_every_successor_out(storage, worker, monkeypatch):
    child, process = worker
    leave(storage, dead(), [process])
    monkeypatch.setattr(leases, "WAIT_FOR_PROCESSES_SECONDS", 0.1)
    for _ in range(3):
        with pytest.raises(RefusedError, match=f"still run.*process {child.pid} "):
            acquire(storage, NAME)
    child.kill()
    child.wait()
    held = acquire(storage, NAME)
    assert lease_state(storage, NAME).processes == ()
    held.release()


def test_so_do_they_after_a_successor_that_died_while_it_waited(storage, worker, monkeypatch):
    _, process = worker
    leave(storage, dead(), [process])
    body = {"holder": dead().to_json(), "processes": [process.to_json()]}
    storage.create(f"{NAME}.d/0000002.json", seal(body))
    monkeypatch.setattr(leases, "WAIT_FOR_PROCESSES_SECONDS", 0.1)
    with pytest.raises(RefusedError, match="still run"):
        acquire(storage, NAME)


def test_the_lease_is_renewed_while_old_workers_are_waited_for(storage, worker, monkeypatch):
    _, process = worker
    leave(storage, dead(), [process])
    seen = []

    def wait(processes, seconds):
        until(lambda: lease_state(storage, NAME).counter >= 3)
        seen.append(lease_state(storage, NAME).generation)
        return []

    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(leases, "wait_until_dead", wait)
    acquire(storage, NAME).release()
    assert seen == [2]


def test_a_claim_whose_answer_was_lost_is_ones_own(storage, monkeypatch):
    create = type(storage).create

    def unanswered(place, name, data):
        create(place, name, data)
        return False

    monkeypatch.setattr(type(storage), "create", unanswered)
    held = acquire(storage, NAME)
    assert held.generation == 1
    held.release()


def test_a_link_that_was_made_and_not_answered_counts_as_made(tmp_path, monkeypatch):
    storage, link = PosixStorage(tmp_path / "stores"), os.link

    def unanswered(source, target):
        link(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", unanswered)
    assert storage.create("toy/record.json", b"1")
    assert not storage.create("toy/record.json", b"2")
    assert storage.read("toy/record.json") == b"1"


def test_a_folder_that_another_process_removes_before_the_link_is_made_again(tmp_path, monkeypatch):
    storage, link, removed = PosixStorage(tmp_path / "stores"), os.link, []

    def linked(source, target):
        if not removed:
            removed.append(os.rmdir(target.parent))
        link(source, target)

    monkeypatch.setattr(os, "link", linked)
    assert storage.create("toy/record.json", b"1") and removed
    assert storage.read("toy/record.json") == b"1"


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_lease_that_could_not_be_taken_or_released_is_free_for_its_own_process(
    storage, monkeypatch, failing
):
    replace, calls = type(storage).replace, []

    def unwritten(place, name, data):
        calls.append(name)
        if len(calls) == failing:  # the first renewal, one while it is held, or the release
            raise OSError(28, "No space left on device")
        replace(place, name, data)

    monkeypatch.setattr(type(storage), "replace", unwritten)
    with pytest.raises(OSError, match="No space"):
        held = acquire(storage, NAME)
        try:
            held.add_processes([])
        finally:
            held.release()
    again = acquire(storage, NAME)
    with pytest.raises(RefusedError, match="is working here"):
        acquire(storage, NAME)  # which is really held
    again.release()
