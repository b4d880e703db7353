import numpy as np
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.stages.texts.ids import IdsStage, column_of_rows, id_index, ids_of_rows
from raypipe.storage.payloads.tables import ROW_GROUP_ROWS


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
    stored = stores.finished(IdsStage(large), beats=beats)
    index = id_index(large, stored)
    last = large.num_rows - 1
    assert index.rows_of(["p0", f"p{last}", "nobody", f"p{ROW_GROUP_ROWS}"]).tolist() == [
        0, last, -1, ROW_GROUP_ROWS,
    ]  # fmt: skip
    assert stored.manifest.records[0].facts["rows"] == large.num_rows == stored.num_rows
    assert len(beats) == 3 + 1  # one a row group


def test_repeated_ids_are_refused(stores):
    twice = stores.tables(schema.PASSAGES, [["a", "b"], ["x", "y"]], [["a"], ["z"]])
    with pytest.raises(InputError, match="a"):
        stores.finished(IdsStage(twice))


def test_whether_ids_must_be_dense_names_the_id_index(stores):
    collection = stores.passages(["a"])
    assert IdsStage(collection).spec == IdsStage(collection, dense=False).spec
    assert IdsStage(collection).spec != IdsStage(collection, dense=True).spec
