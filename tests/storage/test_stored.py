import numpy as np
import pyarrow as pa
from ledgers import SPEC, commit, ledger

from raypipe.storage.payloads import (
    taken,
    write_table,
    write_tokens,
)
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, committed, spec_over

NUMBERS = pa.schema([("number", pa.int64()), ("text", pa.string())])


def numbers(start, stop):
    rows = range(start, stop)
    return pa.table([list(rows), [f"t{row}" for row in rows]], schema=NUMBERS)


ROWS = [[5, 6, 7], [], [8], [9, 10], []]


FLAT = np.array([piece for row in ROWS for piece in row], np.uint16)


OFFSETS = np.cumsum([0, *map(len, ROWS)]).astype(np.int64)


def as_rows(found):
    flat, offsets = found
    return [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]


def test_rows_of_a_store_are_read_over_its_shards(storage):
    book = ledger(storage, [2, 0, 3, 1])
    for s in book.shards:
        commit(book, s, lambda p, s=s: write_table(p, NUMBERS, [numbers(s.start, s.stop)]))
    stored = Stored(book.storage, book.publish())
    for start in range(7):
        for stop in (*range(7), 99, None):
            found = stored.table(NUMBERS, start, stop)["number"].to_pylist()
            assert found == list(range(6))[start:stop]
    assert stored.whole_table(NUMBERS)["number"].to_pylist() == list(range(6))
    spans = [(r.shard.index, a, b) for r, a, b in stored.overlapping(1, 5)]
    assert spans == [(0, 1, 2), (2, 0, 3)] and stored.num_rows == 6


def test_tables_of_a_store_are_the_rows_asked_for_in_groups(storage, monkeypatch):
    monkeypatch.setattr("raypipe.storage.store.ROW_GROUP_ROWS", 2)
    book = ledger(storage, [3, 3])
    for s in book.shards:
        commit(book, s, lambda p, s=s: write_table(p, NUMBERS, [numbers(s.start, s.stop)]))
    stored = Stored(book.storage, book.publish())
    for asked, groups in (
        ((), [[0, 1], [2, 3], [4, 5]]),
        ((1, 6), [[1, 2], [3, 4], [5]]),
        ((2, 2), []),
    ):
        found = [table["number"].to_pylist() for table in stored.tables(NUMBERS, *asked)]
        assert found == groups


def test_pieces_of_a_store_are_read_over_its_shards(storage):
    book = ledger(storage, [2, 3])
    for s in book.shards:
        flat, offsets = taken(FLAT, OFFSETS, np.arange(s.start, s.stop))
        commit(book, s, lambda p, f=flat, o=offsets: write_tokens(p, f, o))
    stored = Stored(book.storage, book.publish())
    for start in range(5):
        for stop in range(start + 1, 6):
            assert as_rows(stored.tokens(start, stop)) == ROWS[start:stop]


def test_a_spec_names_stores_by_their_digests_and_places_and_content_by_its_hash(storage):
    stores = {}
    for name, store in (("queries", "queries@dev"), ("collection", "passages@collection")):
        book = ledger(storage, [1], store)
        commit(book, book.shards[0], lambda p, store=store: p.write_text(store))
        stores[name] = Stored(book.storage, book.publish())
    made = spec_over("toy", 2, {"k": 1}, stores, produces="run", content={"content:file": "ff"})
    assert made == StageSpec(
        "toy",
        2,
        {"k": 1},
        {**{name: stored.identity for name, stored in stores.items()}, "content:file": "ff"},
        "run",
        {
            "queries": f"queries@dev/{SPEC.fingerprint()}",
            "collection": f"passages@collection/{SPEC.fingerprint()}",
        },
    )
    alone = spec_over("toy", 2, {}, {}, produces="facts")
    assert alone == StageSpec("toy", 2, produces="facts")


def test_what_is_committed_of_an_unfinished_store_is_seen_in_shard_order(storage):
    assert committed(storage, "toy", SPEC) is None
    book = ledger(storage, [2, 3, 1])
    for index, there in ((None, []), (2, [2]), (0, [0, 2]), (1, [0, 1, 2])):
        if index is not None:
            commit(book, book.shards[index], lambda p, i=index: p.write_bytes(b"%d" % i))
        found = committed(storage, "toy", SPEC).manifest
        assert [record.shard.index for record in found.records] == there
    assert book.manifest() is None
    assert book.publish() == committed(storage, "toy", SPEC).manifest
