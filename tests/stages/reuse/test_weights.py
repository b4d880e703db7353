"""What shards weigh by the records of another store, by hand."""

from types import SimpleNamespace

from raypipe.stages.encode import EncodeStage
from raypipe.stages.reuse.boundaries import spread
from raypipe.stages.texts.prepare import CountStage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.records import Record, Shard


def stored(*records):
    """(rows, pieces, bytes) of each record."""
    made, start = [], 0
    for index, (rows, pieces, num_bytes) in enumerate(records):
        shard = Shard(index, start, start + rows)
        made.append(Record(shard, "", num_bytes, {"pieces": pieces}))
        start += rows
    return SimpleNamespace(manifest=SimpleNamespace(records=made[::-1]))


def test_a_record_is_spread_evenly_over_its_rows():
    records = stored((10, 100, 0), (10, 300, 0))
    shards = [Shard(0, 0, 5), Shard(1, 5, 15), Shard(2, 15, 20), Shard(3, 20, 20)]
    assert spread(records, lambda r: r.facts["pieces"], shards) == [50, 200, 150, 0]
    assert spread(stored(), lambda r: 1.0, [Shard(0, 0, 0)]) == [0]


def test_stages_weigh_tokens_text_and_files(tmp_path):
    store, shards = stored((10, 80, 600), (10, 280, 200)), [Shard(0, 0, 10), Shard(1, 10, 20)]
    assert EncodeStage(store, None, "passage").weights_of(shards) == [100, 300]
    assert TokenizeStage(store, None, None).weights_of(shards) == [600, 200]
    files = [tmp_path / "a", tmp_path / "b", tmp_path / "none"]
    files[0].write_bytes(b"x" * 7)
    files[1].write_bytes(b"x" * 90)
    shards = [Shard(i, i, i + 1) for i in range(3)]
    assert CountStage(files, "msmarco-v1").weights_of(shards) == [7, 90, 0]
