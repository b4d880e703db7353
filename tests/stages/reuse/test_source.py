"""Rows of an older store found by their texts, on tables of letters."""

from types import SimpleNamespace

import numpy as np
import pytest
from plain_stores import spec_of

from raypipe.stages.encode import EncodeStage
from raypipe.stages.ids import ids_stage
from raypipe.stages.prepare import CountStage
from raypipe.stages.reuse.boundaries import spread
from raypipe.stages.reuse.source import OlderStore, OpenedSource, hashes_of_collection, origin_of
from raypipe.stages.tokenize import TokenizeStage
from raypipe.storage.records import Record, Shard


@pytest.fixture
def source(stores):
    """A source over shards of older texts, and the new texts."""

    def make(older, now, *, skipped=(), numerics="test", classes=None):
        vectors = [np.ones((len(texts), 2)) for texts in older]
        hashes = [stores.finished(ids_stage(stores.passages(*side))) for side in (older, [now])]
        made = OlderStore(stores.vectors(*vectors, skipped=skipped, classes=classes), *hashes)
        return OpenedSource(made, numerics)

    return make


def rows(source, *wanted):
    return source.rows(np.array(wanted, np.int64)).tolist()


def test_a_row_is_found_by_its_text_wherever_it_was(source):
    found = source([["a", "b"], ["c", "b"]], ["c", "x", "b", "a"])
    assert rows(found, 0, 1, 2, 3) == [2, -1, 1, 0]
    assert rows(found, 3) == [0] and rows(found) == []


def test_skipped_rows_are_not_copied(source):
    assert rows(source([["a", "b"], ["c"]], ["a", "b", "c"], skipped=[1]), 0, 1, 2) == [0, -1, 2]


def test_rows_of_another_numerics_class_are_not_copied(source):
    found = source([["a", "b"]], ["a", "b"], numerics="another")
    assert rows(found, 0, 1) == [-1, -1] and found.whole(Shard(0, 0, 2)) is None


def test_an_older_shard_of_equal_texts_is_found_whole(source):
    found = source([["a", "b"], ["c", "a"], ["a", "d"]], ["x", "a", "d", "c", "a", "b"])
    assert found.whole(Shard(0, 1, 3)).shard.start == 4
    assert found.whole(Shard(0, 3, 5)).shard.start == 2
    for start, stop in ((0, 2), (1, 2), (4, 6), (3, 6), (3, 3)):
        expected = 0 if (start, stop) == (4, 6) else None
        record = found.whole(Shard(0, start, stop))
        assert (record and record.shard.start) == expected, (start, stop)


def test_an_older_shard_with_skipped_rows_is_not_taken_whole(source):
    found = source([["a", "b"]], ["a", "b"], skipped=[1])
    assert found.whole(Shard(0, 0, 2)) is None


def test_older_rows_are_grouped_by_their_shards(source):
    found = source([["a", "b"], [], ["c", "d"]], ["a"])
    groups = found.by_record(np.array([1, 2, 3]))
    assert [(r.shard.start, inner.tolist()) for r, inner in groups] == [(0, [1]), (2, [0, 1])]
    assert [r.shard.start for r, _ in found.by_record(np.array([3]))] == [2]
    assert found.by_record(np.array([], np.int64)) == []
    assert found.path(groups[0][0]).is_file()


def test_empty_shards_hold_no_row(source):
    found = source([[], ["a", "b"], [], ["c"], []], ["c", "a", "b", "x"])
    assert rows(found, 0, 1, 2, 3) == [2, 0, 1, -1]
    assert found.whole(Shard(0, 1, 3)).shard.start == 0
    assert found.whole(Shard(0, 0, 1)).shard.start == 2


def test_nothing_is_found_in_a_store_without_rows(source):
    found = source([[]], ["a"])
    assert rows(found, 0) == [-1] and found.whole(Shard(0, 0, 1)) is None


def test_a_store_is_followed_to_what_it_was_made_from_while_that_exists(stores):
    texts = stores.passages(["a"])
    hashes = stores.hashes(texts)
    ids = stores.finished(ids_stage(texts))
    assert origin_of(hashes, "collection") == texts
    assert origin_of(hashes, "texts") is None and origin_of(hashes) == hashes
    assert origin_of(hashes, "collection", "texts") is None
    assert hashes_of_collection(texts) == hashes
    assert hashes_of_collection(stores.passages(["a"])) is None
    folder = f"{hashes.manifest.store}/{hashes.manifest.fingerprint}"
    stores.storage.delete(f"{folder}/spec.json")
    assert origin_of(hashes, "collection") is None
    stores.storage.delete(f"{texts.origin}/manifest.json")
    (name,) = spec_of(ids).origins
    assert origin_of(ids, name) is None


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["test", "other", "test"], [0, -1, 2]),
        (["test", "test", "other"], [0, 1, -1]),
        (["other", "test", "test"], [-1, 1, 2]),
        (["other", "other", "test"], [-1, -1, 2]),
    ],
)
def test_rows_of_shards_of_another_class_are_not_copied_from_a_mixed_store(
    source, classes, expected
):
    assert (
        rows(source([["a"], ["b"], ["c"]], ["a", "b", "c"], classes=classes), 0, 1, 2) == expected
    )


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
