"""Small Parquet files, of queries or judgements, as columns under our names."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from raypipe import foreign
from raypipe.errors import InputError
from raypipe.regular import check_regular, reading_parquet

MAGIC = b"PAR1"


def is_parquet(path: Path) -> bool:
    """Whether the file begins like a Parquet file."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def read_columns(
    path: Path, wanted: Mapping[str, Sequence[str]], *, numbers: Sequence[str] = ()
) -> pa.Table:
    """The wanted columns in their order; those in `numbers` as they are, the others as strings.

    Raises:
        InputError: not readable as Parquet, a column that is missing or there twice, nulls, or
            another type than text or whole numbers.
    """
    columns = parquet_columns(path, wanted, *wanted)
    with reading_parquet(path):
        table = pq.read_table(path, columns=list(columns.values()), page_checksum_verification=True)
        table.validate(full=True)
    found = {}
    for own, name in columns.items():
        column = table[name]
        if column.null_count:
            raise InputError(f"{path}: column {name}: {column.null_count:,} rows are null")
        found[own] = column if own in numbers else as_text(path, name, column)
    return pa.table(found)


def parquet_columns(
    path: Path, wanted: Mapping[str, Sequence[str]], *needed: str
) -> dict[str, str]:
    """Our name -> the file's, for each of the wanted columns that it has.

    Raises:
        InputError: not readable, a column that is needed is missing, or one is there twice.
    """
    with reading_parquet(path):
        names = pq.read_schema(path).names
    columns = foreign.columns_of(names, wanted)
    if missing := [own for own in needed if own not in columns]:
        raise InputError(
            f"{path}: expected columns {', '.join(needed)}; missing {', '.join(missing)}; found "
            f"{', '.join(names)} ({foreign.also(wanted, *missing)})"
        )
    if twice := [name for name in columns.values() if names.count(name) > 1]:
        raise InputError(f"{path}: expected each column once, found {', '.join(twice)} twice")
    return columns


def as_text(path: Path, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Texts, and whole numbers in decimal, as strings; a column of nulls alone has no type.

    Raises:
        InputError: another type.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    types = pa.types
    is_text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    if not (pa.types.is_integer(kind) or any(is_kind(kind) for is_kind in is_text)):
        raise InputError(f"{path}: column {name}: expected texts; found {column.type}")
    return column.cast(pa.string())
