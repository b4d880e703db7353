"""Parquet payloads: checked schemas, page checksums, deterministic bytes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from raypipe.errors import CorruptError

ROW_GROUP_ROWS = 8192


def write_table(path: Path, schema: pa.Schema, batches: Iterable[pa.Table | pa.RecordBatch]) -> int:
    """The number of rows written, in row groups of 8,192; holds one group and one batch in memory.

    Equal rows give equal bytes, however they are divided into batches.
    """
    num_rows = 0
    with pq.ParquetWriter(
        path, schema, compression="zstd", write_page_checksum=True, store_schema=True
    ) as writer:
        for group in _groups(schema, batches):
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            num_rows += group.num_rows
    return num_rows


def read_table(
    path: Path,
    schema: pa.Schema,
    *,
    start: int = 0,
    stop: int | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Rows [start, stop) of a payload, with all or some columns; reads only their row groups.

    Raises:
        CorruptError: the file's columns are not the schema's, or a page's checksum differs.
    """
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        _check_schema(path, file.schema_arrow, schema)
        total = file.metadata.num_rows
        stop = total if stop is None else min(stop, total)
        first, last = start // ROW_GROUP_ROWS, -(-stop // ROW_GROUP_ROWS)
        if start >= stop:
            return schema.empty_table()
        table = file.read_row_groups(list(range(first, last)), columns=columns)
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptError(f"{path.name}: not a readable Parquet payload: {error}") from error
    return table.slice(start - first * ROW_GROUP_ROWS, stop - start)


def _check_schema(path: Path, found: pa.Schema, expected: pa.Schema) -> None:
    if not found.equals(expected):
        raise CorruptError(f"{path.name}: expected columns {expected}, found {found}")


def _groups(schema: pa.Schema, batches: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    num_held = 0
    for batch in batches:
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        held.append(table.cast(schema))
        num_held += table.num_rows
        while num_held >= ROW_GROUP_ROWS:
            merged = _merge(held)
            yield merged.slice(0, ROW_GROUP_ROWS)
            held = [merged.slice(ROW_GROUP_ROWS)]
            num_held = held[0].num_rows
    if num_held:
        yield _merge(held)


def _merge(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()
