"""The side store of a collection's texts, against hashlib and a dictionary."""

import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from raypipe.stages.ids import TextHashes, hashes_of, ids_stage
from raypipe.stages.stage import Sizing


def sha(text):
    return np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], "<u8").tolist()


def test_a_hash_is_the_first_16_bytes_of_sha256_of_the_text(stores):
    texts = ["a zebra", "", "Ünïcode", "a zebra"]
    stored = stores.finished(ids_stage(stores.passages(texts[:1], texts[1:])))
    found = TextHashes(stored)
    assert found.hashes.tolist() == [sha(text) for text in texts]
    assert found.first_rows(found.hashes).tolist() == [0, 1, 2, 0]
    other = np.array([sha("another"), sha("a zebra")], np.uint64)
    assert found.first_rows(other).tolist() == [-1, 0]


def test_the_ids_do_not_count_and_each_file_is_one_shard(stores):
    stage = ids_stage(stores.passages(["b"], ["a", "b"]))
    assert [shard.to_json() for shard in stage.shards(Sizing())] == [
        [0, 0, 3, 0, 0],
        [1, 0, 3, 0, 1],
    ]
    assert TextHashes(stores.finished(stage)).first_rows(
        hashes_of(pa.chunked_array([["b", "a"]]))
    ).tolist() == [0, 1]


def test_a_collection_without_passages_has_no_rows(stores):
    found = TextHashes(stores.finished(ids_stage(stores.passages([]))))
    assert found.hashes.shape == (0, 2)
    assert found.first_rows(hashes_of(pa.chunked_array([["a"]]))).tolist() == [-1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=20))
def test_the_first_row_is_that_of_a_plain_search_also_where_64_bits_agree(pairs):
    found = TextHashes.__new__(TextHashes)  # over given hashes, without a store
    found.hashes = np.array(pairs, np.uint64).reshape(-1, 2)
    order = np.argsort(found.hashes[:, 0], kind="stable")
    found._sorted, found._rows = found.hashes[order, 0], order.astype(np.uint32)
    wanted = [(a, b) for a in range(5) for b in range(4)]
    expected = [pairs.index(pair) if pair in pairs else -1 for pair in wanted]
    assert found.first_rows(np.array(wanted, np.uint64)).tolist() == expected


def test_the_first_of_many_equal_texts_is_found(stores):
    texts = [f"{n * n % 7}" for n in range(400)]
    found = TextHashes(stores.finished(ids_stage(stores.passages(texts))))
    firsts = [texts.index(text) for text in texts]
    assert found.first_rows(found.hashes).tolist() == firsts


def test_a_row_takes_52_bytes_at_most_and_a_beat_is_told_for_each_group_of_rows(
    stores, monkeypatch
):
    monkeypatch.setattr("raypipe.storage.store.ROW_GROUP_ROWS", 300)
    stage = ids_stage(stores.passages([f"{n}" for n in range(1000)]))
    beats = []
    ids, hashes = stores.finished(stage, beats=beats).manifest.records
    assert stage.estimated_bytes(2000, 2) == 52_000 > ids.num_bytes + hashes.num_bytes
    assert 28_000 < hashes.num_bytes < 28_500 and 16_000 < ids.num_bytes < 16_500
    assert ids.facts == hashes.facts == {"rows": 1000} and beats == [[]] * (1 + 4)
