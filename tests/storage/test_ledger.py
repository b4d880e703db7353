"""The ledger: plan once, first record wins, publish only what is whole."""

import pyarrow.parquet as pq
import pytest

from raypipe.errors import CorruptError, IncompleteError, InputError, LimitError
from raypipe.storage.ledger import Ledger
from raypipe.storage.places.posix import PosixStorage
from raypipe.storage.records import Shard, seal, unseal
from raypipe.storage.spec import StageSpec
from raypipe.storage.store_records import read_manifest, read_spec

SHARDS = [Shard(0, 0, 3), Shard(1, 3, 6), Shard(2, 6, 8)]


def ledger(tmp_path, shards=SHARDS, **params):
    return Ledger(PosixStorage(tmp_path), "toy", StageSpec("toy", 1, params, {}), shards)


def commit(book, shard, data=None, **facts):
    path = book.storage.scratch() / "payload"
    path.write_bytes(data if data is not None else str(shard).encode())
    return book.commit(shard, path, facts)


def test_publish_needs_every_shard_and_names_the_first_missing(tmp_path):
    book = ledger(tmp_path)
    commit(book, SHARDS[0])
    with pytest.raises(IncompleteError, match=r"2 of 3 shards.*shard 00001 rows \[3, 6\)"):
        book.publish()
    assert book.manifest() is None
    assert book.pending() == SHARDS[1:]


def test_publish_lists_records_in_shard_order_whoever_came_first(tmp_path):
    book = ledger(tmp_path)
    for shard in (SHARDS[2], SHARDS[0], SHARDS[1]):
        commit(book, shard, rows=shard.num_rows)
    manifest = book.publish()
    assert [r.shard for r in manifest.records] == SHARDS
    assert manifest.num_rows == 8
    assert read_manifest(PosixStorage(tmp_path), "toy", book.fingerprint) == manifest
    assert book.publish() == manifest


def test_a_lost_race_returns_the_winners_record(tmp_path):
    first, second = ledger(tmp_path), ledger(tmp_path)
    won = commit(first, SHARDS[0], b"winner", rows=3)
    assert commit(second, SHARDS[0], b"loser", rows=3) == won


def test_a_standing_plan_is_adopted_with_its_shards(tmp_path):
    ledger(tmp_path)
    assert ledger(tmp_path, [Shard(0, 0, 8)]).shards == tuple(SHARDS)
    assert Ledger(PosixStorage(tmp_path), "toy", StageSpec("toy", 1)).shards == tuple(SHARDS)


def test_changed_settings_build_beside_the_old_store(tmp_path):
    old, new = ledger(tmp_path, depth=10), ledger(tmp_path, depth=20)
    commit(old, SHARDS[0])
    assert old.folder != new.folder
    assert new.pending() == SHARDS


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
def test_ranges_that_are_not_disjoint_and_complete_are_not_published(tmp_path, shards):
    book = ledger(tmp_path, shards)
    for shard in shards:
        commit(book, shard)
    with pytest.raises(CorruptError):
        book.publish()
    assert book.manifest() is None


def test_a_payload_damaged_before_publishing_is_found(tmp_path):
    book = ledger(tmp_path)
    records = [commit(book, shard) for shard in SHARDS]
    path = tmp_path / "blobs" / records[1].sha256[:2] / records[1].sha256
    path.chmod(0o644)
    path.write_bytes(b"X" + path.read_bytes()[1:])
    with pytest.raises(CorruptError, match=records[1].sha256):
        book.publish()
    assert book.manifest() is None


def test_a_record_of_another_shard_is_found(tmp_path):
    book = ledger(tmp_path)
    for shard in SHARDS:
        commit(book, shard)
    folder = tmp_path / book.folder / "shards"
    (folder / "00001.json").write_bytes((folder / "00000.json").read_bytes())
    with pytest.raises(CorruptError, match=r"expected shard 00001"):
        book.publish()


def test_rows_in_quarantine_count_against_the_limit(tmp_path):
    book = ledger(tmp_path)
    for shard in SHARDS:
        commit(book, shard, skipped_rows=[4] if shard.index == 1 else [])
    with pytest.raises(LimitError, match="max_failed_rows=0"):
        book.publish()
    manifest = book.publish(max_failed_rows=1)
    assert manifest.skipped_rows == (4,)
    assert manifest.coverage == 7 / 8


def test_without_plan_or_shards_there_is_nothing_to_do(tmp_path):
    with pytest.raises(IncompleteError, match="no plan"):
        ledger(tmp_path, None)


def test_another_stores_record_of_the_same_range_is_not_published(tmp_path):
    mine, other = ledger(tmp_path, model="a"), ledger(tmp_path, model="b")
    for shard in SHARDS:
        commit(mine, shard)
        commit(other, shard, b"of the other model")
    name = "shards/00001.json"
    (tmp_path / mine.folder / name).write_bytes((tmp_path / other.folder / name).read_bytes())
    with pytest.raises(
        CorruptError, match=rf"record of {mine.folder}, found one of {other.folder}"
    ):
        mine.publish()
    assert mine.manifest() is None


def test_another_stores_plan_is_not_adopted(tmp_path):
    mine, other = ledger(tmp_path, model="a"), ledger(tmp_path, SHARDS[:2], model="b")
    (tmp_path / mine.folder / "plan.json").write_bytes(
        (tmp_path / other.folder / "plan.json").read_bytes()
    )
    with pytest.raises(CorruptError, match=rf"expected a record of {mine.folder}"):
        ledger(tmp_path, model="a")


def test_another_stores_manifest_and_spec_are_not_read(tmp_path):
    mine, other = ledger(tmp_path, model="a"), ledger(tmp_path, model="b")
    for shard in SHARDS:
        commit(other, shard)
    other.publish()
    for name in ("manifest.json", "spec.json"):
        (tmp_path / mine.folder / name).write_bytes((tmp_path / other.folder / name).read_bytes())
    with pytest.raises(CorruptError, match="manifest.json: expected a record of"):
        mine.manifest()
    with pytest.raises(CorruptError, match="spec.json: expected the spec of"):
        read_spec(PosixStorage(tmp_path), "toy", mine.fingerprint)


@pytest.mark.parametrize("found", [1, 4, 6])
@pytest.mark.parametrize("name", ["plan.json", "shards/00000.json", "manifest.json"])
def test_records_of_another_format_are_refused(tmp_path, name, found):
    book = ledger(tmp_path)
    for shard in SHARDS:
        commit(book, shard)
    book.publish()
    path = tmp_path / book.folder / name
    path.write_bytes(seal({**unseal(name, path.read_bytes()), "format": found}))
    told = rf"{name}: expected records of format 5, found format {found}"
    with pytest.raises(InputError, match=told):
        opened = ledger(tmp_path)
        opened.record(SHARDS[0])
        opened.manifest()


def test_torn_lines_of_the_log_are_passed_over_in_the_quarantine(tmp_path):
    book = ledger(tmp_path)
    for shard in SHARDS:
        commit(book, shard, skipped_rows=[4] if shard.index == 1 else [])
    book.note({"event": "quarantined", "row": 4, "reason": "its worker died"})
    with (tmp_path / book.folder / "attempts.jsonl").open("ab") as log:
        log.write(b'{"event": "quarantined", "ro')
    book.publish(max_failed_rows=1)
    table = pq.read_table(tmp_path / book.folder / "quarantine.parquet")
    assert table.to_pylist() == [{"row": 4, "reason": "its worker died"}]


def test_a_note_is_one_line_of_json_its_keys_in_order(tmp_path):
    storage = PosixStorage(tmp_path)
    ledger = Ledger(storage, "store", StageSpec("made", 1), [Shard(0, 0, 1)])
    ledger.note({"b": 1, "a": {"d": 2, "c": 3}})
    log = tmp_path / "store" / ledger.fingerprint / "attempts.jsonl"
    assert log.read_text() == '{"a": {"c": 3, "d": 2}, "b": 1}\n'
