"""Ids through their stage: dense ones checked, repeated ones refused, read back by row."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.stages.stage import Site
from raypipe.stages.texts.ids import column_of_rows, id_index, ids_of_rows, ids_stage
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import ROW_GROUP_ROWS, write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored


@pytest.fixture
def large(stores):
    """Two shards, the first of more than two row groups; passage n has the text `t N`."""
    first = 2 * ROW_GROUP_ROWS + 10
    texts = [f"t {n}" for n in range(first + 5)]
    return stores.passages(texts[:first], texts[first:])


def test_columns_of_rows_come_in_the_order_asked_over_groups_and_shards(large):
    first = 2 * ROW_GROUP_ROWS + 10
    rows = np.array([first + 4, 0, first, ROW_GROUP_ROWS, first - 1, ROW_GROUP_ROWS - 1, 0])
    assert column_of_rows(large, rows, "text") == [f"t {n}" for n in rows]
    assert ids_of_rows(large, rows[:3]) == [f"p{n}" for n in rows[:3]]
    assert ids_of_rows(large, np.array([first])) == [f"p{first}"]
    assert ids_of_rows(large, np.empty(0, np.int64)) == []


def test_the_id_index_finds_the_row_of_every_id_and_minus_one_for_others(stores, large):
    beats = []
    stored = stores.finished(ids_stage(large), beats=beats)
    index = id_index(large, stored)
    last = large.num_rows - 1
    assert index.rows_of(["p0", f"p{last}", "nobody", f"p{ROW_GROUP_ROWS}"]).tolist() == [
        0, last, -1, ROW_GROUP_ROWS,
    ]  # fmt: skip
    assert [record.facts["rows"] for record in stored.manifest.records] == [large.num_rows] * 2
    assert len(beats) == 2 * (3 + 1) - 1  # one a row group; those of the hashes are cut over shards


def test_repeated_ids_are_refused(stores):
    twice = stores.tables(schema.PASSAGES, [["a", "b"], ["x", "y"]], [["a"], ["z"]])
    with pytest.raises(InputError, match="a"):
        stores.finished(ids_stage(twice))


def test_whether_ids_must_be_dense_names_the_id_index(stores):
    collection = stores.passages(["a"])
    assert ids_stage(collection).spec == ids_stage(collection, dense=False).spec
    assert ids_stage(collection).spec != ids_stage(collection, dense=True).spec


def collection(tmp_path, *shards):
    """A published collection of these shards of ids; the text of an id is the id twice."""
    edges = np.cumsum([0, *map(len, shards)]).tolist()
    planned = [Shard(i, edges[i], edges[i + 1]) for i in range(len(shards))]
    ledger = Ledger(PosixStorage(tmp_path), "collection", StageSpec("toy", 1), planned)
    for shard, ids in zip(planned, shards, strict=True):
        path = ledger.storage.scratch() / "payload"
        table = pa.table([ids, [f"{i} {i}" for i in ids]], schema=schema.PASSAGES)
        write_table(path, schema.PASSAGES, [table])
        ledger.commit(shard, path, {"rows": len(ids)})
    return Stored(ledger.storage, ledger.publish())


def run(stored, *, dense):
    stage = ids_stage(stored, dense)
    opened = stage.open(Site(stored.storage.scratch()))
    shard = stage.shards(None)[0]
    return opened.run(shard, (), lambda rows: None)


def test_ids_0_and_2_are_refused_where_dense_ones_are_declared(tmp_path):
    stored = collection(tmp_path, ["0", "2"])
    with pytest.raises(InputError, match="row 1: expected id 1, found '?2"):
        run(stored, dense=True)
    assert run(stored, dense=False).facts == {"rows": 2}


def test_dense_ids_are_checked_over_shards(tmp_path):
    assert run(collection(tmp_path / "a", ["0", "1"], ["2"]), dense=True).facts == {"rows": 3}
    with pytest.raises(InputError, match="row 2: expected id 2"):
        run(collection(tmp_path / "b", ["0", "1"], ["0"]), dense=True)


def test_an_id_in_two_shards_is_refused_with_both_rows(tmp_path):
    with pytest.raises(InputError, match=r"row 4: passage id 'b' again, first in row 2"):
        run(collection(tmp_path, ["a", "b"], ["c", "b"]), dense=False)


def test_rows_of_several_shards_are_read_in_the_order_asked(tmp_path):
    ids = [f"p{number}" for number in range(20_000)]  # more than two row groups of 8,192
    stored = collection(tmp_path, ids[:17_000], ids[17_000:])
    rows = np.array([19_999, 0, 8_192, 8_191, 17_000, 16_999, 0, 16_384])
    assert ids_of_rows(stored, rows) == [ids[row] for row in rows]
    assert column_of_rows(stored, rows[:2], "text") == ["p19999 p19999", "p0 p0"]
    assert ids_of_rows(stored, np.empty(0, np.int64)) == []
