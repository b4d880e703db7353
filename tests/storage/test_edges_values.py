"""Records, payloads and small files of the stores at their bounds."""

import json
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from raypipe import schema
from raypipe.errors import CorruptError, IncompleteError, InputError, LimitError
from raypipe.storage.ledger import Ledger
from raypipe.storage.opening import open_storage
from raypipe.storage.payloads.mapped import map_tensors
from raypipe.storage.payloads.tables import ROW_GROUP_ROWS, read_table, write_table
from raypipe.storage.payloads.tokens import (
    concatenate,
    map_tokens,
    read_tokens,
    taken,
    write_tokens,
)
from raypipe.storage.payloads.vectors import read_vectors, write_vectors
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard, canonical, digest, hash_file, seal, unseal
from raypipe.storage.spec import StageSpec
from raypipe.storage.store_records import read_manifest
from raypipe.storage.stored import Stored, committed

SPEC = StageSpec("toy", 1, {"a": 1})
SHARDS = [Shard(0, 0, 2), Shard(1, 2, 5)]


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path / "stores")


def commit(ledger, shard, content=b"x", **facts):
    path = ledger.storage.scratch() / "payload"
    path.write_bytes(content)
    return ledger.commit(shard, path, {"rows": shard.num_rows, **facts})


def test_one_value_has_one_byte_string():
    assert canonical({"b": 1, "a": [1.5, None, "ü"]}) == b'{"a":[1.5,null,"\\u00fc"],"b":1}'
    with pytest.raises(ValueError):
        canonical({"a": float("nan")})
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_any_other_byte_of_a_sealed_record_is_refused(tmp_path):
    data = seal({"a": 1})
    assert unseal("x", data) == {"a": 1} and data.endswith(b"}\n")
    for bad in (data[:-1], data + b"\n", b" " + data, data.replace(b"1", b"2", 1), b"[]", b"{}"):
        with pytest.raises(CorruptError, match="x: the record's bytes"):
            unseal("x", bad)
    listed = {"body": [1], "sha256": digest(canonical([1]))}
    with pytest.raises(CorruptError):
        unseal("x", canonical(listed) + b"\n")
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    assert hash_file(path) == digest(b"abc")


def test_a_shard_is_five_numbers_and_told_with_its_span():
    assert Shard(3, 5, 9).num_rows == 4 and Shard(3, 5, 9).to_json() == [3, 5, 9, 0, 0]
    assert str(Shard(3, 5, 9)) == "shard 00003 rows [5, 9)"
    assert str(Shard(3, 5, 9, 0, 2)) == "shard 00003 rows [5, 9) x [0, 2)"


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


def test_the_first_writer_of_a_shard_wins(storage):
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    first = commit(ledger, SHARDS[0], b"1")
    assert commit(ledger, SHARDS[0], b"2") == first == ledger.record(SHARDS[0])
    again = Ledger(storage, "toy", SPEC, [Shard(0, 0, 5)])  # the plan that stands is adopted
    assert list(again.shards) == SHARDS
    with pytest.raises(IncompleteError, match="no plan"):
        Ledger(storage, "toy", StageSpec("toy", 2))


def test_what_is_committed_of_an_unfinished_store_can_be_read(storage):
    assert committed(storage, "toy", SPEC) is None
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    assert committed(storage, "toy", SPEC).manifest.records == ()
    record = commit(ledger, SHARDS[1])
    assert committed(storage, "toy", SPEC).manifest.records == (record,)
    commit(ledger, SHARDS[0])
    manifest = ledger.publish()
    assert committed(storage, "toy", SPEC).manifest == manifest


def test_a_payload_is_read_only_and_nothing_of_it_stays_elsewhere(storage, tmp_path):
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    record = commit(ledger, SHARDS[0])
    blob = storage.local(record.sha256)
    assert stat.S_IMODE(blob.stat().st_mode) == 0o444
    ledger.storage.sweep()
    assert not [name for name in storage.names("tmp")]


def test_a_payload_that_changed_before_it_was_stored_is_refused(storage, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"1")
    with pytest.raises(CorruptError, match="changed"):
        storage.put(digest(b"2"), path)
    assert not storage.has(digest(b"2")) and not storage.has(digest(b"1"))
    storage.put(digest(b"1"), path)
    assert storage.has(digest(b"1"))
    storage.check(digest(b"1"))
    with pytest.raises(CorruptError):
        storage.check(digest(b"2"))


def test_free_bytes_are_those_of_the_disk_even_before_the_folder_is_there(tmp_path):
    import shutil

    free = PosixStorage(tmp_path / "a" / "b").free_bytes()
    assert abs(free - shutil.disk_usage(tmp_path).free) < 1 << 33
    assert not (tmp_path / "a").exists()


def test_paths_and_file_uris_open_folders_and_other_schemes_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_storage("x").uri == str(tmp_path / "x")
    assert open_storage(f"file://{tmp_path}/y").uri == str(tmp_path / "y")
    with pytest.raises(InputError, match="'http'"):
        open_storage("http://x")


def passages(first, stop):
    numbers = range(first, stop)
    return pa.table(
        [[f"p{n}" for n in numbers], [f"t{n}" for n in numbers]], schema=schema.PASSAGES
    )


@pytest.mark.parametrize("step", [1000, ROW_GROUP_ROWS, 3 * ROW_GROUP_ROWS])
def test_equal_rows_have_equal_bytes_however_they_are_cut(tmp_path, step):
    total = 2 * ROW_GROUP_ROWS + 5
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert write_table(whole, schema.PASSAGES, [passages(0, total)]) == total
    pieces = [passages(n, min(n + step, total)) for n in range(0, total, step)]
    assert write_table(cut, schema.PASSAGES, pieces) == total
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    again = tmp_path / "again"
    write_table(again, schema.PASSAGES, batches)
    assert whole.read_bytes() == cut.read_bytes() == again.read_bytes()
    metadata = pq.ParquetFile(whole).metadata
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert groups == [8192, 8192, 5]  # what stands in stores; another number is another format
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert b"ARROW:schema" in metadata.metadata  # types that Parquet does not know are read back


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 1),
        (ROW_GROUP_ROWS - 1, ROW_GROUP_ROWS + 1),
        (ROW_GROUP_ROWS, 2 * ROW_GROUP_ROWS),
        (ROW_GROUP_ROWS + 3, 2 * ROW_GROUP_ROWS + 5),
        (5, 5),
        (7, 6),
        (2 * ROW_GROUP_ROWS, 99_999),
        (99_998, 99_999),
    ],
)
def test_any_stretch_of_rows_is_read(tmp_path, start, stop):
    total = 2 * ROW_GROUP_ROWS + 5
    path = tmp_path / "x"
    write_table(path, schema.PASSAGES, [passages(0, total)])
    found = read_table(path, schema.PASSAGES, start=start, stop=stop)
    assert found["passage_id"].to_pylist() == [f"p{n}" for n in range(start, min(stop, total))]
    assert read_table(path, schema.PASSAGES).num_rows == total
    one = read_table(path, schema.PASSAGES, start=start, stop=start + 1, columns=["text"])
    assert start >= total or one.to_pydict() == {"text": [f"t{start}"]}


def test_payloads_of_other_columns_or_damaged_pages_are_refused(tmp_path):
    path = tmp_path / "x"
    write_table(path, schema.PASSAGES, [passages(0, 3000)])
    with pytest.raises(CorruptError, match="expected columns"):
        read_table(path, schema.QUERIES)
    damaged = bytearray(path.read_bytes())
    damaged[300] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptError, match="not a readable Parquet payload"):
        read_table(path, schema.PASSAGES)


def test_tokens_of_some_rows_and_of_several_runs_of_rows(tmp_path):
    flat, offsets = np.array([1, 2, 3, 4, 5, 6], np.uint16), np.array([0, 2, 2, 5, 6])
    found = taken(flat, offsets, np.array([3, 0, 1, 2, 0]))
    assert found[0].tolist() == [6, 1, 2, 3, 4, 5, 1, 2]
    assert found[1].tolist() == [0, 1, 3, 3, 6, 8]
    none = taken(flat, offsets, np.empty(0, np.int64))
    assert none[0].tolist() == [] and none[1].tolist() == [0]
    both = concatenate([found, (flat, offsets)])
    assert both[0].tolist() == [*found[0], *flat]
    assert both[1].tolist() == [0, 1, 3, 3, 6, 8, 10, 10, 13, 14]
    write_tokens(tmp_path / "x", *both)
    for read in (read_tokens, map_tokens):
        again = read(tmp_path / "x")
        assert [part.tolist() for part in again] == [part.tolist() for part in both]


def test_mapped_tensors_have_their_own_types_and_shapes(tmp_path):
    tensors = {
        "a": np.arange(6, dtype=np.int64).reshape(2, 3),
        "b": np.array([1, 2], np.uint16),
        "c": np.array([[1.5], [2.5]], np.float32),
        "d": np.empty((0, 4), np.int32),
        "e": np.array([255], np.uint8),
        "f": np.array([7], np.uint32),
    }
    save_file(tensors, tmp_path / "x", metadata={"note": "not a tensor"})
    found = map_tensors(tmp_path / "x")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].tolist() == tensor.tolist()
        assert found[name].shape == tensor.shape
    with pytest.raises(ValueError):
        found["a"][0, 0] = 1


def test_vectors_are_fp16_rows_and_nothing_else(tmp_path):
    path = tmp_path / "x.npy"
    write_vectors(path, np.array([[1, 2], [3, 4]], np.float16).T)
    assert read_vectors(path).tolist() == [[1, 3], [2, 4]]
    for bad in (np.ones((2, 2), np.float32), np.ones(3, np.float16)):
        np.save(path, bad)
        with pytest.raises(CorruptError, match="expected fp16"):
            read_vectors(path)
    path.write_bytes(b"no array")
    with pytest.raises(CorruptError, match="not a readable array"):
        read_vectors(path)


def store_of(storage, name, shards, write):
    ledger = Ledger(storage, name, StageSpec(name, 1), shards)
    for shard in shards:
        path = ledger.storage.scratch() / "x"
        write(shard, path)
        ledger.commit(shard, path, {"rows": shard.num_rows})
    return Stored(storage, ledger.publish())


def test_rows_of_a_store_are_read_over_its_shards(storage):
    shards = [Shard(0, 0, 3), Shard(1, 3, 3), Shard(2, 3, 7)]
    stored = store_of(
        storage, "p", shards,
        lambda s, path: write_table(path, schema.PASSAGES, [passages(s.start, s.stop)]),
    )  # fmt: skip

    def ids(start, stop=None):
        return stored.table(schema.PASSAGES, start, stop)["passage_id"].to_pylist()

    assert ids(0) == [f"p{n}" for n in range(7)] and ids(2, 4) == ["p2", "p3"]
    assert ids(3, 7) == ["p3", "p4", "p5", "p6"] and ids(4, 4) == [] and ids(5, 99) == ["p5", "p6"]
    parts = [(r.shard.index, a, b) for r, a, b in stored.overlapping(2, 5)]
    assert parts == [(0, 2, 3), (2, 0, 2)]
    assert stored.whole_table(schema.PASSAGES).num_rows == stored.num_rows == 7


def test_tokens_of_a_store_are_read_over_its_shards(storage):
    rows = [[1, 2], [], [3], [4, 5, 6], [7]]

    def write(shard, path):
        own = rows[shard.start : shard.stop]
        offsets = np.cumsum([0, *map(len, own)]).astype(np.int64)
        write_tokens(path, np.array(sum(own, []), np.uint16), offsets)

    stored = store_of(storage, "t", [Shard(0, 0, 3), Shard(1, 3, 5)], write)
    for start in range(5):
        for stop in range(start + 1, 6):
            flat, offsets = stored.tokens(start, stop)
            found = [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]
            assert found == rows[start:stop]


def test_a_change_from_or_to_nothing_is_told():
    old = StageSpec("s", 1, {"a": {}, "b": {"c": [1, 2]}, "h": "a" * 31}, {})
    new = StageSpec("s", 1, {"a": {"x": 1}, "b": {"c": [2, 1]}, "h": "a" * 33}, {"i": "f" * 32})
    assert [str(change) for change in old.diff(new)] == [
        "inputs {} -> null",
        f"inputs.i null -> {'f' * 12}",
        "params.a {} -> null",
        "params.a.x null -> 1",
        "params.b.c [1,2] -> [2,1]",
        f"params.h {'a' * 31} -> {'a' * 12}",
    ]
    assert len(old.fingerprint()) == 32 and json.loads(canonical(old.to_json()))["stage"] == "s"
    assert StageSpec.from_json(old.to_json()) == old
    assert os.sep not in old.fingerprint()
