"""Buckets name by name, and leases turn by turn."""

import hashlib
import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pytest

from raypipe.errors import CorruptError, InputError, RefusedError
from raypipe.storage.bucket import BucketStorage
from raypipe.storage.holder import Life, Process, this_process, wait_until_dead
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import seal, unseal


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uri = f"memory://bucket-{uuid.uuid4().hex}/stores"
    yield BucketStorage(uri + "/")
    if fsspec.filesystem("memory").exists(uri):
        fsspec.filesystem("memory").rm(uri, recursive=True)


def sha256_of(data):
    return hashlib.sha256(data).hexdigest()


def test_names_of_a_bucket_are_read_replaced_listed_and_deleted(bucket):
    assert not bucket.uri.endswith("/") and bucket.free_bytes() is None
    for name, data in (("b/2", b"2"), ("a/1", b"1"), ("b/1", b"3")):
        bucket.replace(name, data)
    assert list(bucket.names("")) == ["a/1", "b/1", "b/2"] and list(bucket.names("b")) == [
        "b/1",
        "b/2",
    ]
    assert bucket.exists("a/1") and not bucket.exists("a/2")
    bucket.replace("a/1", b"new")
    assert bucket.read("a/1") == b"new"
    bucket.delete("a/1")
    assert (
        not bucket.exists("a/1") and not bucket.create("b/1", b"x") and bucket.create("a/1", b"x")
    )
    with pytest.raises(FileNotFoundError):
        bucket.read("a/9")
    for name in ("../x", "a//b", "", "/a"):
        with pytest.raises(InputError):
            bucket.create(name, b"")


def test_a_log_of_a_bucket_has_a_newline_a_line_and_only_new_ones_in_its_tail(bucket):
    for line in (b"a\n\n", b"b", b"c\n"):
        bucket.append("log", line)
    assert bucket.read("log") == b"a\nb\nc\n"
    assert bucket.tail("log", 1) == (b"b\nc\n", 3) and bucket.tail("log", 5) == (b"", 5)


def test_a_blob_of_a_bucket_is_its_hash_or_refused(bucket, tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"rows")
    with pytest.raises(CorruptError, match="changed"):
        bucket.put(sha256_of(b"other"), file)
    assert file.exists() and not bucket.has(sha256_of(b"other"))
    bucket.put(sha256_of(b"rows"), file)
    assert bucket.has(sha256_of(b"rows")) and not file.exists()
    bucket.check(sha256_of(b"rows"))
    assert not list(tmp_path.glob("raypipe-check-*"))
    found = bucket.local(sha256_of(b"rows"))
    assert found.read_bytes() == b"rows" and found.parent.name == sha256_of(b"rows")[:2]
    with pytest.raises(CorruptError, match="found no object"):
        bucket.local(sha256_of(b"none"))
    assert not list(found.parent.parent.rglob("*.partial"))


def test_unfinished_files_of_a_bucket_are_local_and_those_of_the_dead_go(bucket, tmp_path):
    child = subprocess.run(
        [sys.executable, "-c", "from raypipe.storage.holder import process_label as p; print(p())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    mine = bucket.scratch()
    assert mine.is_dir() and mine.is_relative_to(tmp_path) and list(mine.iterdir()) == []
    dead = mine.parent.parent / child.stdout.strip()
    (dead / "half").mkdir(parents=True)
    other = bucket.scratch()
    assert not dead.exists() and mine.exists() and other != mine


def test_an_owned_bucket_is_the_same_bucket(bucket):
    bucket.replace("a", b"1")
    assert bucket.owned("x").read("a") == b"1" and bucket.owned("x").uri == bucket.uri


NAME = "toy/f/lease.json"


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path)


def test_a_process_is_not_kept_alive_by_its_lease(tmp_path):
    code = (
        "from raypipe.storage.lease import acquire; from raypipe.storage.posix import PosixStorage;"
        f"from pathlib import Path; held = acquire(PosixStorage(Path({str(tmp_path)!r})), {NAME!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    found = lease_state(PosixStorage(tmp_path), NAME)
    assert found.life() is Life.DEAD and not found.released


def test_what_stands_tells_generation_holder_processes_and_release(storage):
    assert lease_state(storage, NAME) is None
    held = acquire(storage, NAME)
    found = lease_state(storage, NAME)
    assert (found.generation, found.holder, found.released) == (1, this_process(), False)
    assert found.processes == () and found.life() is Life.ALIVE
    other = Process("h", "b", "n", 7, 1.0)
    held.add_processes([other])
    held.add_processes([other])
    again = lease_state(storage, NAME)
    assert again.processes == (other,) and again.counter > found.counter
    held.release()
    last = lease_state(storage, NAME)
    assert last.released and last.life() is Life.DEAD and last.counter > again.counter
    assert not held.lost


def test_every_claim_is_kept_so_that_each_holder_before_knows_it_was_succeeded(storage):
    for generation in range(1, 6):
        held = acquire(storage, NAME)
        assert held.generation == generation
        held.release()
    claims = [Path(name).stem for name in storage.names("") if ".json.d/" in name]
    assert claims == [f"{generation:07d}" for generation in range(1, 6)]


def test_a_damaged_renewal_guards_nothing_and_a_damaged_claim_is_refused(storage):
    acquire(storage, NAME).release()
    storage.replace(NAME, b"{}")
    found = lease_state(storage, NAME)
    assert (found.generation, found.counter, found.released) == (1, 0, False)
    storage.replace(f"{NAME}.d/0000001.json", b"{}")
    with pytest.raises(CorruptError):
        lease_state(storage, NAME)


def test_a_claim_beyond_the_renewal_is_the_newest(storage):
    held = acquire(storage, NAME)
    held.release()
    newer = Process("elsewhere", "b", "n", 7, 1.0)
    storage.create(f"{NAME}.d/0000002.json", seal({"holder": newer.to_json()}))
    found = lease_state(storage, NAME)
    assert (found.generation, found.holder, found.counter) == (2, newer, 0)
    assert found.life() is Life.UNKNOWN and found.processes == ()


def test_one_of_whom_nothing_is_known_is_watched_and_refused_when_it_renews(storage):
    elsewhere = Process("elsewhere", "b", "n", 7, 1.0)
    body = {"generation": 1, "counter": 5, "holder": elsewhere.to_json(), "processes": []}
    storage.create(f"{NAME}.d/0000001.json", seal({"holder": elsewhere.to_json()}))
    storage.replace(NAME, seal({**body, "released": False}))

    def renew(found):
        assert (found.generation, found.counter) == (1, 5)
        storage.replace(NAME, seal({**body, "counter": 6, "released": False}))

    with pytest.raises(RefusedError, match="process 7 on elsewhere is at work"):
        acquire(storage, NAME, watch_seconds=5, on_watch=renew)

    def release(found):
        storage.replace(NAME, seal({**body, "counter": 7, "released": True}))

    held = acquire(storage, NAME, watch_seconds=5, on_watch=release)
    assert held.generation == 2
    held.release()
    assert unseal(NAME, storage.read(NAME))["generation"] == 2


def test_the_living_are_told_after_the_wait_and_the_dead_at_once():
    dead = Process("x", "y", "z", 1, 1.0)
    gone = Process(**{**this_process().to_json(), "start_time": 1.0})
    assert wait_until_dead([], 60) == [] and wait_until_dead([gone], 60) == []
    assert this_process() in wait_until_dead([this_process(), gone], 0.05)
    assert Process.from_json(dead.to_json()) == dead and str(dead) == "process 1 on x"
