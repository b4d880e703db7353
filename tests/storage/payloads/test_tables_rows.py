import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe import schema
from raypipe.errors import CorruptError
from raypipe.storage.payloads.tables import ROW_GROUP_ROWS, read_table, write_table


def passages(first, stop):
    numbers = range(first, stop)
    return pa.table(
        [[f"p{n}" for n in numbers], [f"t{n}" for n in numbers]], schema=schema.PASSAGES
    )


@pytest.mark.parametrize("step", [1000, ROW_GROUP_ROWS, 3 * ROW_GROUP_ROWS])
def test_equal_rows_have_equal_bytes_however_they_are_cut(tmp_path, step):
    total = 2 * ROW_GROUP_ROWS + 5
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert write_table(whole, schema.PASSAGES, [passages(0, total)]) == total
    pieces = [passages(n, min(n + step, total)) for n in range(0, total, step)]
    assert write_table(cut, schema.PASSAGES, pieces) == total
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    again = tmp_path / "again"
    write_table(again, schema.PASSAGES, batches)
    assert whole.read_bytes() == cut.read_bytes() == again.read_bytes()
    metadata = pq.ParquetFile(whole).metadata
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert groups == [8192, 8192, 5]  # what stands in stores; another number is another format
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert b"ARROW:schema" in metadata.metadata  # types that Parquet does not know are read back


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 1),
        (ROW_GROUP_ROWS - 1, ROW_GROUP_ROWS + 1),
        (ROW_GROUP_ROWS, 2 * ROW_GROUP_ROWS),
        (ROW_GROUP_ROWS + 3, 2 * ROW_GROUP_ROWS + 5),
        (5, 5),
        (7, 6),
        (2 * ROW_GROUP_ROWS, 99_999),
        (99_998, 99_999),
    ],
)
def test_any_stretch_of_rows_is_read(tmp_path, start, stop):
    total = 2 * ROW_GROUP_ROWS + 5
    path = tmp_path / "x"
    write_table(path, schema.PASSAGES, [passages(0, total)])
    found = read_table(path, schema.PASSAGES, start=start, stop=stop)
    assert found["passage_id"].to_pylist() == [f"p{n}" for n in range(start, min(stop, total))]
    assert read_table(path, schema.PASSAGES).num_rows == total
    one = read_table(path, schema.PASSAGES, start=start, stop=start + 1, columns=["text"])
    assert start >= total or one.to_pydict() == {"text": [f"t{start}"]}


def test_payloads_of_other_columns_or_damaged_pages_are_refused(tmp_path):
    path = tmp_path / "x"
    write_table(path, schema.PASSAGES, [passages(0, 3000)])
    with pytest.raises(CorruptError, match="expected columns"):
        read_table(path, schema.QUERIES)
    damaged = bytearray(path.read_bytes())
    damaged[300] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptError, match="not a readable Parquet payload"):
        read_table(path, schema.PASSAGES)
