"""The ledger: plan once, first record wins, publish only what is whole."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe.errors import CorruptError, IncompleteError, InputError, LimitError
from raypipe.storage.ledger import Ledger, read_manifest, read_spec
from raypipe.storage.records import Shard, seal, unseal
from raypipe.storage.spec import StageSpec

SHARDS = [Shard(0, 0, 3), Shard(1, 3, 6), Shard(2, 6, 8)]


def ledger(storage, shards=SHARDS, **params):
    return Ledger(storage, "toy", StageSpec("toy", 1, params, {}), shards)


def commit(book, shard, data=None, **facts):
    path = book.storage.scratch() / "payload"
    path.write_bytes(data if data is not None else str(shard).encode())
    return book.commit(shard, path, facts)


def test_publish_needs_every_shard_and_names_the_first_missing(storage):
    book = ledger(storage)
    commit(book, SHARDS[0])
    with pytest.raises(IncompleteError, match=r"2 of 3 shards.*shard 00001 rows \[3, 6\)"):
        book.publish()
    assert book.manifest() is None
    assert book.pending() == SHARDS[1:]


def test_publish_lists_records_in_shard_order_whoever_came_first(storage):
    book = ledger(storage)
    for shard in (SHARDS[2], SHARDS[0], SHARDS[1]):
        commit(book, shard, rows=shard.num_rows)
    manifest = book.publish()
    assert [r.shard for r in manifest.records] == SHARDS
    assert manifest.num_rows == 8
    assert read_manifest(storage, "toy", book.fingerprint) == manifest
    assert book.publish() == manifest


@pytest.mark.fault(14, "of two ledgers, the later commit changes nothing")
def test_a_lost_race_returns_the_winners_record(storage):
    first, second = ledger(storage), ledger(storage)
    won = commit(first, SHARDS[0], b"winner", rows=3)
    assert commit(second, SHARDS[0], b"loser", rows=3) == won


def test_a_standing_plan_is_adopted_with_its_shards(storage):
    ledger(storage)
    assert ledger(storage, [Shard(0, 0, 8)]).shards == tuple(SHARDS)
    assert Ledger(storage, "toy", StageSpec("toy", 1)).shards == tuple(SHARDS)


def test_changed_settings_build_beside_the_old_store(storage):
    old, new = ledger(storage, depth=10), ledger(storage, depth=20)
    commit(old, SHARDS[0])
    assert old.folder != new.folder
    assert new.pending() == SHARDS


@pytest.mark.fault(
    12, "4 of 4 plans with a gap, an overlap, no first row or ends apart are not published"
)
@pytest.mark.parametrize(
    "shards",
    [
        [Shard(0, 0, 3), Shard(1, 4, 6)],
        [Shard(0, 0, 3), Shard(1, 2, 6)],
        [Shard(0, 1, 3)],
        [Shard(0, 0, 3, 0, 2), Shard(1, 0, 2, 2, 4)],
    ],
    ids=["gap", "overlap", "first row missing", "spans end apart"],
)
def test_ranges_that_are_not_disjoint_and_complete_are_not_published(storage, shards):
    book = ledger(storage, shards)
    for shard in shards:
        commit(book, shard)
    with pytest.raises(CorruptError):
        book.publish()
    assert book.manifest() is None


@pytest.mark.fault(10, "a payload damaged after its commit is not published")
def test_a_payload_damaged_before_publishing_is_found(storage):
    book = ledger(storage)
    records = [commit(book, shard) for shard in SHARDS]
    name = f"blobs/{records[1].sha256[:2]}/{records[1].sha256}"
    storage.replace(name, b"X" + storage.read(name)[1:])
    with pytest.raises(CorruptError, match=records[1].sha256):
        book.publish()
    assert book.manifest() is None


def test_a_record_of_another_shard_is_found(storage):
    book = ledger(storage)
    for shard in SHARDS:
        commit(book, shard)
    folder = f"{book.folder}/shards"
    storage.replace(f"{folder}/00001.json", storage.read(f"{folder}/00000.json"))
    with pytest.raises(CorruptError, match=r"expected shard 00001"):
        book.publish()


def test_rows_in_quarantine_count_against_the_limit(storage):
    book = ledger(storage)
    for shard in SHARDS:
        commit(book, shard, skipped_rows=[4] if shard.index == 1 else [])
    with pytest.raises(LimitError, match="max_failed_rows=0"):
        book.publish()
    manifest = book.publish(max_failed_rows=1)
    assert manifest.skipped_rows == (4,)
    assert manifest.coverage == 7 / 8


def test_without_plan_or_shards_there_is_nothing_to_do(storage):
    with pytest.raises(IncompleteError, match="no plan"):
        ledger(storage, None)


@pytest.mark.fault(12, "the record of another store for the same rows is not published")
def test_another_stores_record_of_the_same_range_is_not_published(storage):
    mine, other = ledger(storage, model="a"), ledger(storage, model="b")
    for shard in SHARDS:
        commit(mine, shard)
        commit(other, shard, b"of the other model")
    name = "shards/00001.json"
    storage.replace(f"{mine.folder}/{name}", storage.read(f"{other.folder}/{name}"))
    with pytest.raises(
        CorruptError, match=rf"record of {mine.folder}, found one of {other.folder}"
    ):
        mine.publish()
    assert mine.manifest() is None


def test_another_stores_plan_is_not_adopted(storage):
    mine, other = ledger(storage, model="a"), ledger(storage, SHARDS[:2], model="b")
    storage.replace(f"{mine.folder}/plan.json", storage.read(f"{other.folder}/plan.json"))
    with pytest.raises(CorruptError, match=rf"expected a record of {mine.folder}"):
        ledger(storage, model="a")


@pytest.mark.fault(12, "the manifest and the spec of another store are not read")
def test_another_stores_manifest_and_spec_are_not_read(storage):
    mine, other = ledger(storage, model="a"), ledger(storage, model="b")
    for shard in SHARDS:
        commit(other, shard)
    other.publish()
    for name in ("manifest.json", "spec.json"):
        storage.replace(f"{mine.folder}/{name}", storage.read(f"{other.folder}/{name}"))
    with pytest.raises(CorruptError, match="manifest.json: expected a record of"):
        mine.manifest()
    with pytest.raises(CorruptError, match="spec.json: expected the spec of"):
        read_spec(storage, "toy", mine.fingerprint)


@pytest.mark.parametrize("found", [1, 5, 7])
@pytest.mark.parametrize("name", ["plan.json", "shards/00000.json", "manifest.json"])
def test_records_of_another_format_are_refused(storage, name, found):
    book = ledger(storage)
    for shard in SHARDS:
        commit(book, shard)
    book.publish()
    path = f"{book.folder}/{name}"
    storage.replace(path, seal({**unseal(name, storage.read(path)), "format": found}))
    told = rf"{name}: expected records of format 6, found format {found}"
    with pytest.raises(InputError, match=told):
        opened = ledger(storage)
        opened.record(SHARDS[0])
        opened.manifest()


def test_torn_lines_of_the_log_are_passed_over_in_the_quarantine(storage):
    book = ledger(storage)
    for shard in SHARDS:
        commit(book, shard, skipped_rows=[4] if shard.index == 1 else [])
    book.note({"event": "quarantined", "row": 4, "reason": "its worker died"})
    storage.append(f"{book.folder}/attempts.jsonl", b'{"event": "quarantined", "ro')
    book.publish(max_failed_rows=1)
    table = pq.read_table(pa.BufferReader(storage.read(f"{book.folder}/quarantine.parquet")))
    assert table.to_pylist() == [{"row": 4, "reason": "its worker died"}]


def test_a_note_is_one_line_of_json_its_keys_in_order(storage):
    ledger = Ledger(storage, "store", StageSpec("made", 1), [Shard(0, 0, 1)])
    ledger.note({"b": 1, "a": {"d": 2, "c": 3}})
    log = storage.read(f"store/{ledger.fingerprint}/attempts.jsonl")
    assert log == b'{"a": {"c": 3, "d": 2}, "b": 1}\n'
