"""Which rows are copied, which computed, and where each value ends up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.stages.reuse.division import divide, same_payload
from raypipe.storage.records import Record, Shard


def ints(*numbers):
    return np.array(numbers, np.int64)


def test_copied_and_computed_values_meet_in_row_order():
    keys = np.array([[1, 1], [2, 2], [3, 3], [2, 2], [4, 4]], np.uint64)
    found = divide(ints(10, 11, 12, 13, 14), keys, ints(7, -1, 3, -1, 7))
    assert found.num_copied == 3
    assert found.copied.tolist() == [3, 7]
    assert found.computed.tolist() == [1]  # rows 11 and 13 have one text
    values = ["older 3", "older 7", "of row 11"]
    made = [values[place] for place in found.places]
    assert made == ["older 7", "of row 11", "older 3", "of row 11", "older 7"]
    assert found.all_rows_of([0]) == [11, 13]


def test_without_keys_every_row_is_computed():
    found = divide(ints(4, 5), None, None)
    assert (found.num_copied, found.copied.tolist()) == (0, [])
    assert found.computed.tolist() == [0, 1] and found.places.tolist() == [0, 1]
    assert found.all_rows_of([1]) == [5]


def test_computed_rows_keep_their_order_whatever_their_keys():
    keys = np.array([[9], [1], [5], [1]], np.int64)
    found = divide(ints(0, 1, 2, 3), keys, None)
    assert found.computed.tolist() == [0, 1, 2] and found.places.tolist() == [0, 1, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 3)), max_size=12))
def test_every_row_gets_the_value_of_its_text(rows):
    # The value of key k is k, and an older row r with it has the same value.
    keys = np.array([[key] for key, _ in rows], np.int64).reshape(-1, 1)
    older = ints(*(-1 if place < 0 else key * 10 + place for key, place in rows))
    found = divide(np.arange(len(rows)), keys, older)
    pool = [row // 10 for row in found.copied] + [keys[p][0] for p in found.computed]
    assert [pool[place] for place in found.places] == [key for key, _ in rows]
    assert len({keys[p][0] for p in found.computed}) == len(found.computed)


@pytest.mark.parametrize("linked", [True, False])
def test_an_older_payload_is_named_again_and_survives_the_removal_of_scratch(
    tmp_path, monkeypatch, linked
):
    if not linked:

        def refuse(*paths):
            raise OSError("another file system")

        monkeypatch.setattr("os.link", refuse)
    blob, scratch = tmp_path / "blob", tmp_path / "scratch"
    blob.write_bytes(b"1")
    scratch.mkdir()
    record = Record(Shard(4, 10, 13), "ab", 1, {"rows": 3, "numerics": "x"})
    for _ in range(2):  # the second time over what a killed attempt left
        payload = same_payload(record, blob, scratch, Shard(0, 0, 3))
    assert (payload.path.read_bytes(), payload.num_copied) == (b"1", 3)
    assert payload.facts == {"rows": 3, "numerics": "x"}
    payload.path.unlink()
    assert blob.read_bytes() == b"1"
