"""gc paused between any two of its steps beside an invocation that uses what it found."""

import os
import shutil
import threading
from contextlib import contextmanager

import pytest
from beside import let_run
from recipes import dense, invoke, write_files

from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace
from raypipe.errors import RefusedError
from raypipe.storage.cleanup import doom, doomed_places
from raypipe.storage.lease import acquire
from raypipe.storage.posix import PosixStorage


@pytest.fixture(scope="module")
def used_twice(tmp_path_factory, tiny_model):
    """A workspace with stores of an older setting, all old; a copy; the invocation."""
    folder = tmp_path_factory.mktemp("used")
    write_files(folder, {"a": "the zebra", "b": "a lease", "c": "of shards"})
    text = dense(folder, tiny_model)

    def run(depth):
        invoke(text, folder / "work", f"stages.dense.depth={depth}")

    run(2)
    run(1)
    for path in (folder / "work" / "stores").rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    shutil.copytree(folder / "work", folder / "copy", copy_function=shutil.copy2)
    return folder / "work", folder / "copy", lambda: run(2)


@pytest.fixture
def used_again(used_twice, monkeypatch):
    """The workspace as it was made, in its own place, and the invocation that uses older stores."""
    folder, copy, again = used_twice
    shutil.rmtree(folder)
    shutil.copytree(copy, folder, copy_function=shutil.copy2)

    @contextmanager
    def no_signals():
        yield lambda: None

    monkeypatch.setattr("raypipe.driver.pipeline.interruptible", no_signals)  # for a thread
    return Workspace(folder), again


class Paused(PosixStorage):
    """Calls `meanwhile` once before step number `step` of what gc does to the storage."""

    def __init__(self, root, step, meanwhile, monkeypatch=None):
        super().__init__(root)
        self.step, self.meanwhile, self.count = step, meanwhile, 0
        self._monkeypatch = monkeypatch

    def _next(self):
        self.count += 1
        if self.count == self.step:
            # An invocation that met a mark waits; gc goes on.
            let_run(threading.Thread(target=self.meanwhile), self._monkeypatch)

    def create(self, name, data):
        self._next()
        return super().create(name, data)

    def delete(self, name):
        self._next()
        super().delete(name)

    def read(self, name):
        self._next()
        return super().read(name)


@pytest.fixture(scope="module")
def num_steps(used_twice, tmp_path_factory):
    """How many steps gc takes to find, and to delete, on a copy of the workspace."""
    folder = tmp_path_factory.mktemp("counted") / "work"
    counted = Workspace(shutil.copytree(used_twice[1], folder, copy_function=shutil.copy2))
    counted.stores = counting = Paused(counted.stores.root, -1, None)
    found = find_garbage(counted)
    num_found = counting.count
    delete(counted, found)
    return num_found, counting.count - num_found


PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_an_invocation_beside_a_paused_gc_keeps_all_that_it_refers_to(
    used_again, num_steps, part, monkeypatch
):
    work, again = used_again
    num_found, num_deleted = num_steps
    ended, threads = [], []

    def meanwhile():
        threads.append(threading.current_thread())
        again()
        ended.append("complete")

    step = 1 + num_found + part * num_deleted // PARTS
    work.stores = Paused(work.stores.root, step, meanwhile, monkeypatch)
    delete(work, find_garbage(work))
    (thread,) = threads
    thread.join()
    assert ended == ["complete"]
    fresh = Workspace(work.folder)
    assert verify(fresh) == [] and doomed_places(fresh.stores) == []
    refs = fresh.refs()
    for store in ("dense.test", "parts@dense.test"):
        assert fresh.stores.exists(f"{store}/{refs[store]}/manifest.json")


def test_one_gc_works_at_a_time(used_again):
    work, _ = used_again
    found, before = find_garbage(work), sorted(work.stores.names(""))
    lease = acquire(work.stores, "gc/lease.json")
    with pytest.raises(RefusedError, match="gc/lease.json"):
        delete(work, found)
    lease.release()
    kept = {name for name in set(before) - set(found.names) if not name.startswith("gc/")}
    deleted = delete(work, found)
    assert sorted(deleted) == sorted(found.names)
    assert {n for n in work.stores.names("") if not n.startswith("gc/")} == kept


def test_marks_that_a_killed_gc_left_go_with_the_next(used_again):
    work, again = used_again
    doom(work.stores, "tokens@tiny/0")
    delete(work, find_garbage(work))
    assert doomed_places(work.stores) == []
    again()


def test_what_is_used_again_since_it_was_found_stays_with_its_payloads(used_again):
    work, again = used_again
    found = find_garbage(work)
    again()
    deleted = delete(work, found)
    assert not set(deleted) & {name for files in found.stores.values() for name in files}
    assert verify(Workspace(work.folder)) == []


def test_a_gc_that_lost_its_lease_stops(used_again, monkeypatch):
    work, _ = used_again
    found = find_garbage(work)
    monkeypatch.setattr("raypipe.storage.lease.Lease.lost", property(lambda lease: True))
    with pytest.raises(RefusedError, match="another gc has taken over"):
        delete(work, found)
    assert all(work.stores.exists(name) for files in found.stores.values() for name in files)


@pytest.mark.parametrize("complete", [True, False])
def test_a_gc_that_ends_just_before_a_ref_is_written_takes_nothing_that_is_used(
    used_again, monkeypatch, complete
):
    """It saw no ref and its marks are gone: whoever refers then finds what was deleted."""
    work, again = used_again
    doomed = {
        place: [name for name in files if complete or not name.endswith("/manifest.json")]
        for place, files in find_garbage(work).stores.items()
    }
    assert doomed
    for place in () if complete else doomed:
        work.stores.delete(f"{place}/manifest.json")
    refer = Workspace.refer

    def late(workspace, store, fingerprint):
        for name in doomed.pop(f"{store}/{fingerprint}", ()):
            workspace.stores.delete(name)
        refer(workspace, store, fingerprint)

    monkeypatch.setattr(Workspace, "refer", late)
    again()
    assert doomed == {}, "each was referred to"
    assert verify(Workspace(work.folder)) == []
