"""Ids through their stage: dense ones checked, repeated ones refused, read back by row."""

import numpy as np
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.stages.ids import column_of_rows, id_index, ids_of_rows, ids_stage
from raypipe.stages.stage import Site
from raypipe.storage.payloads import ROW_GROUP_ROWS


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
    last_groups = np.array([2 * ROW_GROUP_ROWS, ROW_GROUP_ROWS, 2 * ROW_GROUP_ROWS - 1])
    assert ids_of_rows(large, last_groups) == [f"p{n}" for n in last_groups]
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


def test_whether_ids_must_be_dense_names_the_id_index(stores):
    collection = stores.passages(["a"])
    assert ids_stage(collection).spec == ids_stage(collection, dense=False).spec
    assert ids_stage(collection).spec != ids_stage(collection, dense=True).spec


@pytest.fixture
def checked(stores):
    """A function that makes the ids of a collection with these shards of ids; their facts."""

    def facts(*shards, dense):
        collection = stores.tables(schema.PASSAGES, *([ids, ids] for ids in shards))
        stage = ids_stage(collection, dense)
        opened = stage.open(Site(stores.storage.scratch()))
        return opened.run(stage.shards(None)[0], (), lambda rows: None).facts

    return facts


def test_dense_ids_are_checked_over_shards_where_they_are_declared(checked):
    assert checked(["0", "1"], ["2"], dense=True) == {"rows": 3}
    with pytest.raises(InputError, match="row 1: expected id 1, found '?2"):
        checked(["0", "2"], dense=True)
    with pytest.raises(InputError, match="row 2: expected id 2"):
        checked(["0", "1"], ["0"], dense=True)
    assert checked(["0", "2"], dense=False) == {"rows": 2}


def test_an_id_in_two_shards_is_refused_with_both_rows(checked):
    with pytest.raises(InputError, match=r"row 4: passage id 'b' again, first in row 2"):
        checked(["a", "b"], ["c", "b"], dense=False)
