import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import (
    write_table,
    write_tokens,
)
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, committed

SPEC = StageSpec("toy", 1, {"a": 1})


SHARDS = [Shard(0, 0, 2), Shard(1, 2, 5)]


def commit(ledger, shard, content=b"x", **facts):
    path = ledger.storage.scratch() / "payload"
    path.write_bytes(content)
    return ledger.commit(shard, path, {"rows": shard.num_rows, **facts})


def test_what_is_committed_of_an_unfinished_store_can_be_read(storage):
    assert committed(storage, "toy", SPEC) is None
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    assert committed(storage, "toy", SPEC).manifest.records == ()
    record = commit(ledger, SHARDS[1])
    assert committed(storage, "toy", SPEC).manifest.records == (record,)
    commit(ledger, SHARDS[0])
    manifest = ledger.publish()
    assert committed(storage, "toy", SPEC).manifest == manifest


def passages(first, stop):
    numbers = range(first, stop)
    return pa.table(
        [[f"p{n}" for n in numbers], [f"t{n}" for n in numbers]], schema=schema.PASSAGES
    )


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
