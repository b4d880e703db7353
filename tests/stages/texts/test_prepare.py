"""Collection files into a collection: which record becomes which row of which shard."""

import gzip
import os
from dataclasses import replace

import pytest

from raypipe import schema
from raypipe.data.facts import count_file
from raypipe.errors import CorruptError
from raypipe.stages import prepare
from raypipe.stages.prepare import ConvertStage, CountStage, batched, counted
from raypipe.stages.stage import Sizing
from raypipe.storage.records import Shard


def tsv(path, first, count, text="text"):
    path.write_text("".join(f"id{n}\t{text} {n}\n" for n in range(first, first + count)))
    return path


@pytest.fixture
def files(tmp_path):
    """5, 0 and 3 records, and 4 in a compressed file."""
    found = [tsv(tmp_path / "1.tsv", 0, 5), tsv(tmp_path / "2.tsv", 5, 0)]
    found.append(tsv(tmp_path / "3.tsv", 5, 3))
    plain = tsv(tmp_path / "plain", 8, 4)
    packed = tmp_path / "4.tsv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    return [*found, packed]


def converted(stores, files, sizing, **settings):
    facts = counted(stores.finished(CountStage(files, "msmarco-v1")))
    stage = ConvertStage(files, facts, "msmarco-v1", **settings)
    return stage, stores.finished(stage, sizing)


def test_one_shard_counts_one_file(stores, files):
    beats = []
    stored = stores.finished(CountStage(files, "msmarco-v1"), beats=beats)
    assert [(r.shard.start, r.shard.stop) for r in stored.manifest.records] == [
        (0, 1), (1, 2), (2, 3), (3, 4),
    ]  # fmt: skip
    assert beats == [[0], [1], [2], [3]]
    facts = counted(stored)
    assert [f.num_records for f in facts] == [5, 0, 3, 4]
    assert [bool(f.compressed) for f in facts] == [False, False, False, True]
    assert all(r.facts["rows"] == 1 for r in stored.manifest.records)


@pytest.mark.parametrize("shard_rows", [1, 2, 3, 100])
def test_rows_are_records_in_file_order_wherever_shards_are_cut(stores, files, shard_rows):
    stage, stored = converted(stores, files, Sizing(shard_rows=shard_rows))
    table = stored.table(schema.PASSAGES)
    assert table["passage_id"].to_pylist() == [f"id{n}" for n in range(12)]
    assert table["text"].to_pylist() == [f"text {n}" for n in range(12)]
    assert [r.facts["rows"] for r in stored.manifest.records] == [
        r.shard.num_rows for r in stored.manifest.records
    ]


def test_shards_end_with_their_file_and_a_compressed_file_is_one(stores, files):
    stage, stored = converted(stores, files, Sizing(shard_rows=2))
    edges = [(0, 1), (1, 3), (3, 5), (5, 6), (6, 8), (8, 12)]
    assert [r.shard for r in stored.manifest.records] == [
        Shard(i, start, stop) for i, (start, stop) in enumerate(edges)
    ]


def test_no_records_are_one_empty_shard(stores, tmp_path):
    stage, stored = converted(stores, [tsv(tmp_path / "none.tsv", 0, 0)], Sizing())
    assert [r.shard for r in stored.manifest.records] == [Shard(0, 0, 0)]
    assert stored.table(schema.PASSAGES).num_rows == 0


def test_memory_holds_so_many_records_or_bytes_at_most(stores, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BATCH_RECORDS", 4)
    beats = []
    files = [tsv(tmp_path / "1.tsv", 0, 9)]
    facts = counted(stores.finished(CountStage(files, "msmarco-v1")))
    stored = stores.finished(ConvertStage(files, facts, "msmarco-v1"), beats=beats)
    assert len(beats) == 2 and stored.table(schema.PASSAGES).num_rows == 9
    long = [("a", "x" * (1 << 23)), ("b", "y" * (1 << 23)), ("c", "z")]
    found = list(batched(iter(long), schema.PASSAGES, lambda rows: None))
    assert [batch.num_rows for batch in found] == [2, 1]
    assert [batch["passage_id"].to_pylist() for batch in found] == [["a", "b"], ["c"]]


def test_what_names_a_collection_is_its_content_in_order_and_how_it_is_read(stores, files):
    facts = counted(stores.finished(CountStage(files, "msmarco-v1")))

    def name(facts, **settings):
        return ConvertStage(files, facts, settings.pop("format", "msmarco-v1"), **settings).spec

    whole = name(facts).fingerprint()
    assert name(facts[::-1]).fingerprint() != whole != name(facts[:3]).fingerprint()
    assert name(facts, errors="replace").fingerprint() != whole
    assert name(facts, format="beir").fingerprint() != whole
    assert name(facts, errors="strict").fingerprint() == whole


def test_names_and_the_number_of_files_are_content_not_settings(stores, files):
    facts = counted(stores.finished(CountStage(files, "msmarco-v1")))
    spec = ConvertStage(files, facts, "msmarco-v1").spec
    assert [*spec.inputs] == ["content:files"]
    renamed = [replace(one, name=f"tonight-{one.name}") for one in facts]
    assert ConvertStage(files, renamed, "msmarco-v1").spec == spec
    fewer = ConvertStage(files, facts[:3], "msmarco-v1").spec
    assert [change.field for change in spec.diff(fewer)] == ["inputs.content:files"]
    assert spec.settings_diff(fewer) == []
    counts = [CountStage(some, "msmarco-v1").spec for some in (files, files[:3])]
    assert [*counts[0].inputs] == [f"content:{n:05d}" for n in range(4)]
    assert counts[0].settings_diff(counts[1]) == counts[1].settings_diff(counts[0]) == []


def test_a_file_that_is_written_while_it_is_counted_is_refused(stores, tmp_path, monkeypatch):
    file = tsv(tmp_path / "1.tsv", 0, 5)

    def written(path, **more):
        facts = count_file(path, **more)
        path.write_text(path.read_text() + "x\ty\n")
        return facts

    monkeypatch.setattr("raypipe.stages.prepare.count_file", written)
    with pytest.raises(CorruptError, match=r"1\.tsv.*written while it was counted"):
        stores.finished(CountStage([file], "msmarco-v1"))


def test_a_file_rewritten_or_touched_is_counted_again(tmp_path):
    file = tsv(tmp_path / "1.tsv", 0, 5)
    before = CountStage([file], "msmarco-v1").spec.fingerprint()
    assert CountStage([file], "msmarco-v1").spec.fingerprint() == before
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert CountStage([file], "msmarco-v1").spec.fingerprint() != before
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    dated_back = CountStage([file], "msmarco-v1").spec.fingerprint()
    assert dated_back != before, "a date can be put back, and the bytes be others"
    file.write_text(file.read_text() + "x\ty\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert CountStage([file], "msmarco-v1").spec.fingerprint() not in (before, dated_back)
    absent = tmp_path / "some" / "data-set"
    assert CountStage([absent], "ir_datasets").spec.inputs == {"content:00000": str(absent)}


def test_a_shards_facts_count_replaced_and_blank_texts(stores, tmp_path):
    file = tmp_path / "passages.tsv"
    file.write_bytes(b"a\ttext\nb\t\nc\tx\xff\nd\t  \n")
    _, stored = converted(stores, [file], Sizing(shard_rows=2), errors="replace")
    facts = [record.facts for record in stored.manifest.records]
    assert [(f["rows"], f["replaced"], f["blank"]) for f in facts] == [(2, 0, 1), (2, 1, 1)]


def test_batches_hold_all_records_in_order_with_a_beat_before_each():
    beats = []
    records = [(f"d{n}", "t", "h", "b") for n in range(1025)]
    found = list(batched(iter(records), schema.DOCUMENTS, beats.append))
    assert [batch.num_rows for batch in found] == [1024, 1]
    assert found[1].to_pylist() == [
        {"document_id": "d1024", "title": "t", "headings": "h", "body": "b"}
    ]
    assert len(beats) == 1


def test_the_content_is_named_by_the_hashes_in_order_alone():
    def content(*hashes):
        facts = [type("Facts", (), {"sha256": sha256}) for sha256 in hashes]
        return ConvertStage([], facts, "msmarco-v1").content()

    assert content("a", "b") != content("b", "a")
    assert list(content("a")) == ["content:files"]
