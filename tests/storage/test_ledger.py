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


def test_a_store_is_published_once_all_shards_are_there_in_their_order_whoever_came_first(storage):
    book = ledger(storage)
    assert book.manifest() is None and book.pending() == SHARDS
    commit(book, SHARDS[0], b"1", rows=3, numerics="b")
    told = r"2 of 3 shards are missing, first shard 00001 rows \[3, 6\)"
    with pytest.raises(IncompleteError, match=told):
        book.publish()
    assert book.manifest() is None and book.pending() == SHARDS[1:]
    commit(book, SHARDS[2], b"3", rows=2, numerics="b")
    commit(book, SHARDS[1], b"2", rows=3, numerics="a")
    manifest = book.publish()
    assert [record.shard for record in manifest.records] == SHARDS
    assert [record.num_bytes for record in manifest.records] == [1, 1, 1]
    assert (manifest.numerics, manifest.num_rows, manifest.coverage) == (("a", "b"), 8, 1.0)
    assert not storage.exists(f"{book.folder}/quarantine.parquet")
    assert book.publish() == manifest == read_manifest(storage, "toy", book.fingerprint)
    book.storage.sweep()
    assert not [*storage.names("tmp")], "nothing of a payload stays elsewhere"


@pytest.mark.fault(14, "of two ledgers, the later plan and the later commit change nothing")
def test_the_first_plan_and_the_first_record_of_a_shard_stand(storage):
    first, second = ledger(storage), ledger(storage, [Shard(0, 0, 8)])
    assert second.shards == Ledger(storage, "toy", StageSpec("toy", 1)).shards == tuple(SHARDS)
    won = commit(first, SHARDS[0], b"winner", rows=3)
    assert commit(second, SHARDS[0], b"loser", rows=3) == won == first.record(SHARDS[0])


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


TORN = b'{"event": "quarantined", "ro'


def test_rows_in_quarantine_count_against_the_limit_and_why_stands_beside_them(storage):
    book = ledger(storage)
    for shard, rows in zip(SHARDS, ([2, 0], [5, 4], []), strict=True):
        commit(book, shard, skipped_rows=rows)
    log = f"{book.folder}/attempts.jsonl"
    storage.append(log, TORN)
    book.note({"event": "quarantined", "row": 4, "reason": "not finite"})
    book.note({"event": "failed", "row": 2, "reason": "another event"})
    for reason in ("first", "died"):
        book.note({"event": "quarantined", "row": 0, "reason": reason})
    storage.append(log, TORN)
    for given in ((), (3,)):
        told = rf"4 rows .* max_failed_rows={sum(given)}; first rows \[0, 2, 4, 5\]"
        with pytest.raises(LimitError, match=told):
            book.publish(*given)
    assert book.manifest() is None
    manifest = book.publish(max_failed_rows=4)
    assert (manifest.skipped_rows, manifest.coverage) == ((0, 2, 4, 5), 0.5)
    reasons = {0: "died", 2: "not told", 4: "not finite", 5: "not told"}
    assert quarantine(book) == reasons


def quarantine(book):
    """The reason of each row."""
    data = book.storage.read(f"{book.folder}/quarantine.parquet")
    return dict(zip(*pq.read_table(pa.BufferReader(data)).to_pydict().values(), strict=True))


def test_rows_in_quarantine_without_a_log_are_not_told_why(storage):
    book = ledger(storage, SHARDS[:1])
    commit(book, SHARDS[0], skipped_rows=[0])
    book.publish(1)
    assert quarantine(book) == {0: "not told"}


@pytest.mark.fault(46, "shards of two classes are refused where one is asked for")
def test_shards_of_two_numerics_classes_are_refused_where_one_is_asked_for(storage):
    one, two = ledger(storage, SHARDS[:2], classes=1), ledger(storage, SHARDS[:2], classes=2)
    for book, facts in ((one, {"rows": 3}), (two, {"numerics": "cuda H100"})):
        commit(book, SHARDS[0], numerics="cpu avx2")
        commit(book, SHARDS[1], **facts)
    assert one.publish(one_numerics=True).numerics == ("cpu avx2",), "one shard tells none"
    with pytest.raises(InputError, match="2 numerics classes: cpu avx2; cuda H100"):
        two.publish(one_numerics=True)
    assert two.manifest() is None
    assert two.publish().numerics == ("cpu avx2", "cuda H100")


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


def test_records_of_another_format_are_refused(storage):
    book = ledger(storage)
    for shard in SHARDS:
        commit(book, shard)
    book.publish()
    reads = {
        "plan.json": lambda: ledger(storage),
        "shards/00000.json": lambda: book.record(SHARDS[0]),
        "manifest.json": book.manifest,
    }
    for name, read in reads.items():
        path = f"{book.folder}/{name}"
        data = storage.read(path)
        for found in (1, 5, 7):
            storage.replace(path, seal({**unseal(name, data), "format": found}))
            told = rf"{name}: expected records of format 6, found format {found}"
            with pytest.raises(InputError, match=told):
                read()
        storage.replace(path, data)


def test_a_note_is_one_line_of_json_its_keys_in_order(storage):
    ledger = Ledger(storage, "store", StageSpec("made", 1), [Shard(0, 0, 1)])
    ledger.note({"b": 1, "a": {"d": 2, "c": 3}})
    log = storage.read(f"store/{ledger.fingerprint}/attempts.jsonl")
    assert log == b'{"a": {"c": 3, "d": 2}, "b": 1}\n'
