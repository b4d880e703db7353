"""Reads Parquet runs as columns."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raypipe import foreign
from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import encode
from raypipe.evaluation.run_files.lines import Lines, narrowed
from raypipe.regular import check_ratio, check_regular, reading_parquet

_IDS = ("query_id", "passage_id")
_ROW_BYTES = 16
"""Two codes, a rank and a score: what a row takes without its ids' characters."""


def is_parquet(path: Path) -> bool:
    """Whether the file begins like a Parquet file."""
    check_regular(path, "a run file")
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); expected a run file") from error


def read_parquet(path: Path) -> Lines:
    """The columns of a Parquet run; integer ids become their decimal strings.

    Equal ids are held once, so that a small file cannot ask for much memory.

    Raises:
        InputError: other columns or types, damage, or it unpacks to too much (`check_ratio`).
    """
    num_bytes = path.stat().st_size
    with reading_parquet(path):
        found = pq.read_schema(path)
        columns = _columns(path, found.names)
        ids = [columns[own] for own in _IDS]
        texts = [name for name in ids if foreign.is_text(found.field(name).type)]
        file = pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts)
        check_ratio(path, num_bytes, file.metadata.num_rows * _ROW_BYTES)
        table = file.read(columns=list(columns.values()))
        table.validate(full=True)
    for name in ids:
        check_ratio(path, num_bytes, sum(map(foreign.num_characters, table[name].chunks)))
    if not len(table):
        raise InputError(f"{path}: no rows; expected a run (parquet)")
    return table_lines(path, table)


def table_lines(path: Path, table: pa.Table) -> Lines:
    """A table's columns, read like those of a Parquet run; `path` is its name in messages."""
    columns = _columns(path, table.column_names)
    return Lines(
        encode(_ids(path, table, columns["query_id"])),
        encode(_ids(path, table, columns["passage_id"])),
        _values(path, table, columns["rank"]) if "rank" in columns else None,
        _values(path, table, columns["score"]) if "score" in columns else None,
        np.arange(len(table)),
    )


def _columns(path: Path, found: Sequence[str]) -> dict[str, str]:
    """Our name of each of a run's columns -> the table's."""
    columns = foreign.columns_of(found, foreign.RUN)
    twice = sorted({name for name in columns.values() if list(found).count(name) > 1})
    if twice:
        raise InputError(
            f"{path}: expected each column once, found {', '.join(twice)} more than once; keep the "
            "column that the run is ranked by"
        )
    needed = {*_IDS} if "rank" in columns else {*_IDS, "score"}
    missing = needed - columns.keys()
    if missing:
        raise InputError(
            f"{path}: expected columns query_id, passage_id, and score or rank; "
            f"missing {', '.join(sorted(missing))}; found {', '.join(sorted(found))} "
            f"({foreign.also(foreign.RUN, 'query_id', 'passage_id')})"
        )
    return columns


def _ids(path: Path, table: pa.Table, name: str) -> pa.ChunkedArray:
    column = table[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_integer(kind) or foreign.is_text(kind)):
        raise InputError(f"{path}: column {name}: expected strings; found {column.type}")
    if column.null_count:
        raise InputError(f"{path}: column {name}: {column.null_count} rows are null; expected ids")
    return column.cast(pa.string())


def _values(path: Path, table: pa.Table, name: str) -> NDArray[np.float32]:
    column = table[name]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(f"{path}: column {name}: expected numbers; found {column.type}")
    if column.null_count:
        raise InputError(f"{path}: column {name}: {column.null_count} rows are null")
    return narrowed(column.cast(pa.float64(), safe=False).to_numpy())  # int64 is rounded
