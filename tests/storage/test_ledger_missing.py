"""Files of a store that somebody deleted or emptied."""

import pytest

from raypipe.errors import CorruptError, IncompleteError
from raypipe.storage.ledger import Ledger, read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

SPEC = StageSpec("toy", 1)
SHARDS = [Shard(0, 0, 3), Shard(1, 3, 6)]


@pytest.fixture
def ledger(tmp_path):
    """A published store."""
    found = Ledger(PosixStorage(tmp_path), "toy", SPEC, SHARDS)
    for shard in SHARDS:
        commit(found, shard)
    found.publish()
    return found


def commit(ledger, shard):
    path = ledger.storage.scratch() / "payload"
    path.write_text(str(shard))
    ledger.commit(shard, path, {"rows": 3})


def again(ledger):
    """As the next invocation finds it."""
    return Ledger(PosixStorage(ledger.storage.root), "toy", SPEC, SHARDS)


@pytest.mark.fault(
    12, "a missing manifest: the store is not complete, and is published again alike"
)
def test_without_its_manifest_a_store_is_not_complete_and_publishes_the_same_bytes(ledger):
    path = ledger.storage.root / ledger.folder / "manifest.json"
    before = path.read_bytes()
    path.unlink()
    assert again(ledger).manifest() is None
    assert read_manifest(ledger.storage, "toy", SPEC.fingerprint()) is None
    again(ledger).publish()
    assert path.read_bytes() == before


@pytest.mark.fault(12, "a missing record and its manifest: that shard alone is computed again")
def test_a_missing_record_is_a_shard_to_compute(ledger):
    folder = ledger.storage.root / ledger.folder
    before = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").unlink()
    (folder / "shards" / "00001.json").unlink()
    found = again(ledger)
    assert found.pending() == [SHARDS[1]]
    with pytest.raises(IncompleteError, match="1 of 2 shards are missing"):
        found.publish()
    commit(found, SHARDS[1])
    found.publish()
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.fault(12, "3 of 3 kinds of records that are empty are refused, not taken for missing")
@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "shards/00000.json"])
def test_an_empty_record_is_no_missing_one(ledger, name):
    path = ledger.storage.root / ledger.folder / name
    path.chmod(0o644)
    path.write_bytes(b"")
    with pytest.raises(CorruptError, match=name):
        found = again(ledger)
        found.manifest()
        found.record(SHARDS[0])
