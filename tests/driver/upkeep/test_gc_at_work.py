"""gc leaves a store that somebody works on, and what its holder has not finished."""

import dataclasses
import errno
import os
import time

import pytest

from raypipe.cluster.failures import evidence_name
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.workspace import Workspace
from raypipe.storage.holder import this_process
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard, seal
from raypipe.storage.spec import StageSpec

SHARDS = [Shard(0, 0, 2), Shard(1, 2, 4)]


@pytest.fixture
def work(tmp_path):
    return Workspace(tmp_path / "work")


@pytest.fixture
def store(work):
    """A store that nothing refers to, one of its two shards committed, another one half written."""
    ledger = Ledger(work.stores, "toy-store", StageSpec("toy", 1), SHARDS)
    path = ledger.storage.scratch() / "payload"
    path.write_bytes(b"rows")
    ledger.commit(SHARDS[0], path, {"rows": 2})
    (ledger.storage.scratch() / "half").write_bytes(b"half a shard")
    return ledger


def files(work):
    root = work.stores.root
    names = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
    return {name for name in names if not name.startswith("gc/")}  # its own lease


def garbage(work):
    return find_garbage(work, spared_seconds=-1)


def of(names, *starts):
    return {name for name in names if name.startswith(starts)}


def test_a_store_at_work_its_scratch_and_its_payloads_stay(work, store):
    lease = acquire(work.stores, f"{store.folder}/lease.json")
    before = files(work)
    assert of(before, "tmp/toy-store-") and of(before, "blobs/")
    assert garbage(work).names == []
    delete(work, garbage(work), spared_seconds=-1)
    assert files(work) == before
    lease.release()
    doomed = set(garbage(work).names)
    assert doomed == files(work) and of(doomed, "tmp/toy-store-") and of(doomed, "blobs/")
    delete(work, garbage(work), spared_seconds=-1)
    assert files(work) == set()


def test_a_store_whose_holder_cannot_be_seen_from_here_stays(work, store):
    elsewhere = dataclasses.replace(this_process(), host="elsewhere").to_json()
    name = f"{store.folder}/lease.json"
    work.stores.create(f"{name}.d/0000001.json", seal({"holder": elsewhere}))
    body = {"generation": 1, "counter": 1, "holder": elsewhere, "processes": []}
    work.stores.replace(name, seal({**body, "released": False}))
    assert garbage(work).names == []
    work.stores.replace(name, seal({**body, "released": True}))
    assert set(garbage(work).names) == files(work)


def test_the_scratch_of_a_store_that_nobody_holds_goes_and_a_young_one_stays(work, store):
    scratch = of(files(work), "tmp/")
    work.refer("toy-store", store.fingerprint)
    assert set(garbage(work).names) == scratch
    assert find_garbage(work).names == [], "it is young"
    for name in scratch:
        os.utime(work.stores.root / name, (1, 1))
    assert set(find_garbage(work).names) == scratch


@pytest.mark.parametrize("released", [False, True])
def test_the_word_that_a_stores_workers_must_find_goes_with_its_lease(work, store, released):
    name, _ = work.leave_nonce("toy-store", store.fingerprint)
    lease = acquire(work.stores, f"{store.folder}/lease.json")
    if released:
        lease.release()
    assert (name in garbage(work).names) == released
    if not released:
        lease.release()


def test_the_rows_that_a_careful_worker_wrote_down_stay_while_its_store_is_at_work(work, store):
    name = evidence_name(store, store.shards[1])
    work.stores.replace(name, b"[2, 3]")
    lease = acquire(work.stores, f"{store.folder}/lease.json")
    try:
        assert name not in garbage(work).names
    finally:
        lease.release()
    assert name in garbage(work).names


@pytest.mark.fault(15, "with clocks a day ahead and a day behind gc finds nothing of a young store")
@pytest.mark.parametrize("hours", [25, -25, 24 * 365])
def test_a_clock_that_is_wrong_makes_no_file_old(work, store, monkeypatch, hours):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600 * hours)
    assert find_garbage(work).names == []
    doomed = garbage(work)
    delete(work, doomed)
    assert set(doomed.blobs) and of(files(work), "blobs/") == set(doomed.blobs)


@pytest.mark.fault(15, "a file a day older than one written now is found under clocks a day off")
@pytest.mark.parametrize("hours", [25, -25])
def test_nor_does_it_make_an_old_file_young(work, store, monkeypatch, hours):
    real = time.time
    for path in work.stores.root.rglob("*"):
        if path.is_file():
            os.utime(path, (real() - 90_000,) * 2)
    monkeypatch.setattr(time, "time", lambda: real() + 3600 * hours)
    assert of(find_garbage(work).names, "toy-store/") == of(files(work), "toy-store/")


def test_where_nothing_may_be_written_gc_can_still_be_asked(work, store, monkeypatch):
    def refuse(storage, name, data):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)

    monkeypatch.setattr(PosixStorage, "replace", refuse)
    assert find_garbage(work).names == [] and garbage(work).names != []
    monkeypatch.setattr(PosixStorage, "replace", lambda *given: no_space())
    with pytest.raises(OSError, match="No space"):
        find_garbage(work)


def no_space():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
