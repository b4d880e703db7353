"""gc where the stores are in a bucket: what nobody refers to goes, killed after any object."""

import pytest

from raypipe.driver.summaries import new_summary
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace
from raypipe.storage.bucket import BucketStorage
from raypipe.storage.cleanup import doomed_places
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

SHARDS = [Shard(0, 0, 2), Shard(1, 2, 3)]


@pytest.fixture
def work(tmp_path, bucket_uri):
    found = Workspace(tmp_path / "work", f"{bucket_uri}/stores")
    found.mark()
    found.write_summary(new_summary(None))
    return found


def store(work, number):
    """A complete store of two shards; its folder."""
    ledger = Ledger(work.stores, "a", StageSpec("toy", 1, {"number": number}), SHARDS)
    for shard in SHARDS:
        path = ledger.storage.scratch() / "payload"
        path.write_bytes(b"rows of %d, shard %d" % (number, shard.index))
        ledger.commit(shard, path, {"rows": shard.num_rows})
        ledger.note({"event": "committed", "shard": shard.index})
    ledger.publish()
    return ledger.folder


def blobs(work):
    return {work.stores.read(name) for name in work.stores.names("blobs")}


@pytest.mark.slow
def test_what_nobody_refers_to_goes_and_what_is_young_or_held_stays(work):
    kept, leased, gone = store(work, 1), store(work, 2), store(work, 3)
    work.refer(*kept.split("/"))
    lease = acquire(work.stores, f"{leased}/lease.json")
    work.stores.replace("a/notes-of-mine.json", b"mine")
    assert find_garbage(work).names == []
    found = find_garbage(work, spared_seconds=-60)
    assert list(found.stores) == [gone] and found.num_bytes > 0
    assert found.strangers == ["a/notes-of-mine.json"]
    delete(work, found, spared_seconds=-60)
    lease.release()
    assert blobs(work) == {b"rows of %d, shard %d" % (n, s) for n in (1, 2) for s in (0, 1)}
    assert not list(work.stores.names(gone)) and work.stores.exists(f"{leased}/spec.json")
    assert verify(work) == [] and doomed_places(work.stores) == []


@pytest.mark.slow
@pytest.mark.fault(
    3, "gc of a bucket ended after some deletions: what is left verifies, the next gc ends it"
)
def test_a_gc_that_ends_after_any_deletion_leaves_what_verifies_and_is_ended_by_the_next(
    work, monkeypatch
):
    kept = store(work, 1)
    work.refer(*kept.split("/"))
    remove, steps = BucketStorage.delete, 0

    class Killed(BaseException):
        pass

    while True:
        store(work, 2)
        steps, left = steps + 8, [steps]  # every eighth: the kinds of objects repeat

        def killed(place, name, left=left):
            if not left[0]:
                raise Killed
            left[0] -= 1
            remove(place, name)

        monkeypatch.setattr(BucketStorage, "delete", killed)
        try:
            delete(work, find_garbage(work, spared_seconds=-60), spared_seconds=-60)
            break
        except Killed:
            pass
        finally:
            monkeypatch.setattr(BucketStorage, "delete", remove)
        assert verify(work) == []
        delete(work, find_garbage(work, spared_seconds=-60), spared_seconds=-60)
        assert doomed_places(work.stores) == []
        assert {name.split("/")[1] for name in work.stores.names("a")} == {kept.split("/")[1]}
    assert steps > 12


def test_a_payload_that_is_stored_again_since_it_was_found_stays(work):
    gone = store(work, 3)
    found = find_garbage(work, spared_seconds=-60)
    assert [name for name in found.names if name.startswith("blobs/")]
    delete(work, found, spared_seconds=3600)  # younger than that by the time of deletion
    assert len(blobs(work)) == 2 and not list(work.stores.names(gone))
