import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.payloads import ROW_GROUP_ROWS, read_table, write_table

NUMBERS = pa.schema([("number", pa.int64()), ("text", pa.string())])


G = ROW_GROUP_ROWS


def numbers(start, stop):
    rows = range(start, stop)
    return pa.table([list(rows), [f"t{row}" for row in rows]], schema=NUMBERS)


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, None), (0, 0), (0, 1), (G - 1, G + 1), (G, 2 * G), (G - 1, G), (2 * G, None), (5, 5)]
    + [(2 * G + 6, 2 * G + 99), (2 * G + 7, None), (0, 10 * G), (7, 6), (10 * G, 11 * G)],
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
    cuts = [
        [],
        [1],
        [G],
        [G - 1, G + 1],
        range(1000, total, 1000),
        sorted(rng.integers(0, total, 9)),
    ]
    for inner in cuts:
        edges = [0, *map(int, inner), total]
        tables = [numbers(a, b) for a, b in zip(edges, edges[1:], strict=False)]
        batches = [batch for table in tables for batch in table.to_batches()]
        for given in (tables, batches):
            assert write_table(tmp_path / "t", NUMBERS, given) == total
            hashes.add(hashlib.sha256((tmp_path / "t").read_bytes()).hexdigest())
    assert len(hashes) == 1
    metadata = pq.ParquetFile(tmp_path / "t").metadata
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert groups == [8192, 8192, 50]  # what stands in stores; another number is another format
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert b"ARROW:schema" in metadata.metadata  # types that Parquet does not know are read back


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
