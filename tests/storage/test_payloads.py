"""Payloads and readers of finished stores: any rows, over row groups and shards, by brute force."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.ledger import Ledger
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
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store_records import read_manifest
from raypipe.storage.stored import Stored, committed

NUMBERS = pa.schema([("number", pa.int64()), ("text", pa.string())])
G = ROW_GROUP_ROWS
SPEC = StageSpec("toy", 1)


def numbers(start, stop):
    rows = range(start, stop)
    return pa.table([list(rows), [f"t{row}" for row in rows]], schema=NUMBERS)


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, None), (0, 0), (0, 1), (G - 1, G + 1), (G, 2 * G), (G - 1, G), (2 * G, None), (5, 5)]
    + [(2 * G + 6, 2 * G + 99), (2 * G + 7, None), (0, 10 * G)],
)
def test_a_range_of_a_tables_rows_is_those_rows(tmp_path, start, stop):
    total = 2 * G + 7
    assert write_table(tmp_path / "t", NUMBERS, [numbers(0, total)]) == total
    found = read_table(tmp_path / "t", NUMBERS, start=start, stop=stop)
    expected = list(range(total))[start:stop]
    assert found["number"].to_pylist() == expected
    some = read_table(tmp_path / "t", NUMBERS, start=start, stop=stop, columns=["text"])
    assert some["text"].to_pylist() == [f"t{row}" for row in expected]


def test_a_table_that_ends_with_its_row_group_is_read_to_its_end(tmp_path):
    write_table(tmp_path / "t", NUMBERS, [numbers(0, 2 * G)])
    for start, stop in ((0, 2 * G), (G, 2 * G), (2 * G - 1, None), (0, G)):
        found = read_table(tmp_path / "t", NUMBERS, start=start, stop=stop)
        assert found["number"].to_pylist() == list(range(2 * G))[start:stop]


def test_equal_rows_are_equal_bytes_however_they_are_cut(tmp_path):
    rng = np.random.default_rng(0)
    total, hashes = 2 * G + 50, set()
    for number, cuts in enumerate(
        [[], [1], [G], [G - 1, G + 1], sorted(rng.integers(0, total, 9))]
    ):
        edges = [0, *map(int, cuts), total]
        batches = [numbers(a, b) for a, b in zip(edges, edges[1:], strict=False)]
        path = tmp_path / str(number)
        assert write_table(path, NUMBERS, batches) == total
        hashes.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_other_columns_and_damaged_pages_are_refused(tmp_path):
    path = tmp_path / "t"
    write_table(path, NUMBERS, [numbers(0, 3000)])
    with pytest.raises(CorruptError, match="expected columns"):
        read_table(path, pa.schema([("number", pa.int64())]))
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="not a readable Parquet payload"):
        read_table(path, NUMBERS)


ROWS = [[5, 6, 7], [], [8], [9, 10], []]
FLAT = np.array([piece for row in ROWS for piece in row], np.uint16)
OFFSETS = np.cumsum([0, *map(len, ROWS)]).astype(np.int64)


def as_rows(found):
    flat, offsets = found
    return [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]


def test_word_pieces_are_read_and_mapped_as_they_were_written(tmp_path):
    for name, dtype in (("a", np.uint16), ("b", np.uint32)):
        write_tokens(tmp_path / name, FLAT.astype(dtype), OFFSETS)
        for found in (read_tokens(tmp_path / name), map_tokens(tmp_path / name)):
            assert as_rows(found) == ROWS and found[0].dtype == dtype
    write_tokens(tmp_path / "none", FLAT[:0], OFFSETS[:1])
    assert as_rows(map_tokens(tmp_path / "none")) == []


@pytest.mark.parametrize("rows", [[], [0], [4, 0, 2, 2, 1, 3], [1, 4, 1]])
def test_the_pieces_of_some_rows_come_in_their_order(rows):
    found = taken(FLAT, OFFSETS, np.array(rows, np.int64))
    assert as_rows(found) == [ROWS[row] for row in rows]
    assert as_rows(concatenate([found, (FLAT, OFFSETS)])) == [ROWS[row] for row in rows] + ROWS


def test_vectors_are_fp16_of_two_dimensions_or_refused(tmp_path):
    vectors = np.arange(12, dtype=np.float16).reshape(4, 3)
    write_vectors(tmp_path / "v", vectors[::-1])
    assert np.array_equal(read_vectors(tmp_path / "v"), vectors[::-1])
    for bad in (vectors.astype(np.float32), vectors[0]):
        with (tmp_path / "bad").open("wb") as file:
            np.save(file, bad)
        with pytest.raises(CorruptError, match=r"expected fp16 \[rows, dim\]"):
            read_vectors(tmp_path / "bad")


def ledger(tmp_path, sizes, store="toy"):
    edges = np.cumsum([0, *sizes]).tolist()
    shards = [Shard(i, edges[i], edges[i + 1]) for i in range(len(sizes))]
    return Ledger(PosixStorage(tmp_path), store, SPEC, shards)


def commit(book, shard, write):
    path = book.storage.scratch() / "payload"
    write(path)
    book.commit(shard, path, {"rows": shard.num_rows})


def test_rows_of_a_store_are_read_over_its_shards(tmp_path):
    book = ledger(tmp_path, [2, 3, 1])
    for s in book.shards:
        commit(book, s, lambda p, s=s: write_table(p, NUMBERS, [numbers(s.start, s.stop)]))
    stored = Stored(book.storage, book.publish())
    for start in range(7):
        for stop in range(7):
            found = stored.table(NUMBERS, start, stop)["number"].to_pylist()
            assert found == list(range(6))[start:stop]
    assert stored.whole_table(NUMBERS)["number"].to_pylist() == list(range(6))
    spans = [(r.shard.index, a, b) for r, a, b in stored.overlapping(1, 5)]
    assert spans == [(0, 1, 2), (1, 0, 3)]


def test_pieces_of_a_store_are_read_over_its_shards(tmp_path):
    book = ledger(tmp_path, [2, 3])
    for s in book.shards:
        flat, offsets = taken(FLAT, OFFSETS, np.arange(s.start, s.stop))
        commit(book, s, lambda p, f=flat, o=offsets: write_tokens(p, f, o))
    stored = Stored(book.storage, book.publish())
    for start in range(5):
        for stop in range(start + 1, 6):
            assert as_rows(stored.tokens(start, stop)) == ROWS[start:stop]


def test_what_is_committed_of_an_unfinished_store_is_seen_in_shard_order(tmp_path):
    assert committed(PosixStorage(tmp_path), "toy", SPEC) is None
    book = ledger(tmp_path, [2, 3, 1])
    for index in (2, 0):
        commit(book, book.shards[index], lambda p, i=index: p.write_bytes(b"%d" % i))
    found = committed(PosixStorage(tmp_path), "toy", SPEC)
    assert [record.shard.index for record in found.manifest.records] == [0, 2]
    assert book.manifest() is None


def test_a_manifest_under_another_stores_name_is_refused(tmp_path):
    book = ledger(tmp_path, [2])
    commit(book, book.shards[0], lambda p: p.write_bytes(b"rows"))
    book.publish()
    other = ledger(tmp_path, [2], store="other")
    data = book.storage.read(f"{book.folder}/manifest.json")
    assert other.storage.create(f"{other.folder}/manifest.json", data)
    with pytest.raises(CorruptError, match="found one of toy/"):
        read_manifest(other.storage, "other", other.fingerprint)
