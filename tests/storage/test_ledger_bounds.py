import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe.errors import IncompleteError, LimitError
from raypipe.storage.ledger import Ledger, read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

SPEC = StageSpec("toy", 1, {"a": 1})


SHARDS = [Shard(0, 0, 2), Shard(1, 2, 5)]


def commit(ledger, shard, content=b"x", **facts):
    path = ledger.storage.scratch() / "payload"
    path.write_bytes(content)
    return ledger.commit(shard, path, {"rows": shard.num_rows, **facts})


def test_why_rows_are_in_quarantine_stands_beside_them(storage):
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    commit(ledger, SHARDS[0], skipped_rows=[1])
    commit(ledger, SHARDS[1], skipped_rows=[4, 2])
    ledger.note({"event": "quarantined", "row": 4, "reason": "not finite"})
    ledger.note({"event": "failed", "row": 2, "reason": "another event"})
    ledger.note({"event": "quarantined", "row": 1, "reason": "first"})
    ledger.note({"event": "quarantined", "row": 1, "reason": "died"})
    with pytest.raises(LimitError, match=r"3 rows .* max_failed_rows=2; first rows \[1, 2, 4\]"):
        ledger.publish(2)
    manifest = ledger.publish(3)
    assert manifest.skipped_rows == (1, 2, 4) and manifest.coverage == 1 - 3 / 5
    name = f"{ledger.folder}/quarantine.parquet"
    table = pq.read_table(pa.BufferReader(storage.read(name)))
    assert table.to_pydict() == {"row": [1, 2, 4], "reason": ["died", "not told", "not finite"]}


def test_rows_in_quarantine_without_a_log_are_not_told_why(storage):
    ledger = Ledger(storage, "toy", SPEC, SHARDS[:1])
    commit(ledger, SHARDS[0], skipped_rows=[0])
    ledger.publish(1)
    table = pq.read_table(pa.BufferReader(storage.read(f"{ledger.folder}/quarantine.parquet")))
    assert table.to_pydict() == {"row": [0], "reason": ["not told"]}


def test_what_is_published_names_classes_once_and_in_order(storage):
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    assert ledger.manifest() is None and ledger.pending() == SHARDS
    commit(ledger, SHARDS[1], b"2", numerics="b")
    assert ledger.pending() == SHARDS[:1]
    with pytest.raises(IncompleteError, match="1 of 2 shards are missing, first shard 00000"):
        ledger.publish()
    commit(ledger, SHARDS[0], b"1", numerics="a")
    manifest = ledger.publish()
    assert manifest.numerics == ("a", "b") and manifest.num_rows == 5 and manifest.coverage == 1.0
    assert [record.num_bytes for record in manifest.records] == [1, 1]
    assert not storage.exists(f"{ledger.folder}/quarantine.parquet")
    assert ledger.publish() == manifest == read_manifest(storage, "toy", ledger.fingerprint)


@pytest.mark.fault(14, "a second writer of a shard gets the first one's record")
def test_the_first_writer_of_a_shard_wins(storage):
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    first = commit(ledger, SHARDS[0], b"1")
    assert commit(ledger, SHARDS[0], b"2") == first == ledger.record(SHARDS[0])
    again = Ledger(storage, "toy", SPEC, [Shard(0, 0, 5)])  # the plan that stands is adopted
    assert list(again.shards) == SHARDS
    with pytest.raises(IncompleteError, match="no plan"):
        Ledger(storage, "toy", StageSpec("toy", 2))


def test_a_payload_in_a_folder_is_read_only(tmp_path):
    ledger = Ledger(PosixStorage(tmp_path), "toy", SPEC, SHARDS)
    record = commit(ledger, SHARDS[0])
    blob = ledger.storage.local(record.sha256)
    assert stat.S_IMODE(blob.stat().st_mode) == 0o444


def test_nothing_of_a_payload_stays_elsewhere(storage):
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    commit(ledger, SHARDS[0])
    ledger.storage.sweep()
    assert not [name for name in storage.names("tmp")]
