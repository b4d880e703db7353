import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files import columns
from raypipe.evaluation.run_files.columns import (
    Codes,
    check_run,
    decode,
    encode,
    places,
    repeats,
    unprintable,
)


def test_codes_number_strings_by_first_appearance_over_chunks():
    column = pa.chunked_array([["b", "a"], [], ["c", "a", "b"]], pa.string())
    codes = encode(column)
    assert codes.codes.tolist() == [0, 1, 2, 1, 0] and codes.names.to_pylist() == ["b", "a", "c"]
    nothing = encode(pa.chunked_array([], pa.string()))
    assert len(nothing.codes) == len(nothing.names) == 0
    assert decode(codes, np.array([4, 2, 2])).to_pylist() == ["b", "c", "c"]
    assert decode(codes, np.array([], np.int64)).to_pylist() == []


def test_strings_come_back_over_more_than_one_chunk():
    codes = Codes(np.arange(3, dtype=np.int32), pa.array(["a", "b", "c"]))
    positions = np.arange(1_000_003) % 3
    found = decode(codes, positions)
    assert found.num_chunks == 2 and len(found) == 1_000_003
    assert found[999_999:].to_pylist() == ["abc"[n % 3] for n in range(999_999, 1_000_003)]


def test_repeats_are_of_query_and_passage_together_by_first_appearance():
    queries = encode(pa.chunked_array([["1", "2", "1", "2", "2", "1", "2"]]))
    passages = encode(pa.chunked_array([["a", "b", "b", "a", "b", "b", "b"]]))
    assert [group.tolist() for group in repeats(queries, passages)] == [[1, 4, 6], [2, 5]]
    once = encode(pa.chunked_array([["1", "2"]]))
    assert repeats(once, once) == []


def test_places_begin_anew_with_every_stretch():
    assert places(np.array([3, 3, 1, 3])).tolist() == [1, 2, 1, 1]
    assert places(np.array([5])).tolist() == [1] and places(np.empty(0, np.int64)).tolist() == []


def test_an_empty_table_is_a_run_and_ranks_are_checked_by_query():
    check_run(schema.RUN_FILE.empty_table())
    good = pa.table(
        [["1", "1", "2"], ["a", "b", "a"], [1, 2, 1], [1.0] * 3], schema=schema.RUN_FILE
    )
    check_run(good)
    with pytest.raises(InputError, match="query 2: expected ranks"):
        check_run(good.set_column(2, "rank", [pa.array([1, 2, 3], pa.int32())]))


def test_what_a_run_file_cannot_carry_is_told_in_order():
    names = pa.array(["a", "", "b c", "d", "e\u00a0", "\x7f", "f~"])
    assert unprintable(names) == ["", "b c", "e\u00a0", "\x7f"]


def test_lines_of_shown_names_are_ten():
    assert columns.SHOWN == 10
