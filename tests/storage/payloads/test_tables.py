import hashlib

import numpy as np
import pyarrow as pa
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.payloads.tables import ROW_GROUP_ROWS, read_table, write_table

NUMBERS = pa.schema([("number", pa.int64()), ("text", pa.string())])


G = ROW_GROUP_ROWS


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
