"""Tables given by the user: their columns and ids."""

from typing import Any

import numpy as np
import pyarrow as pa

from raypipe.data.formats.fields import checked_id, shown
from raypipe.errors import InputError


def is_table(given: Any) -> bool:
    """Whether it gives an Arrow stream of columns, like a DataFrame, but not a Series."""
    has_columns = any(hasattr(given, name) for name in ("column_names", "columns", "schema"))
    return has_columns and hasattr(given, "__arrow_c_stream__")


def table_of(given: Any, name: str) -> pa.Table:
    """The table as a pyarrow table.

    Raises:
        InputError: it cannot be read as one.
    """
    if isinstance(given, pa.Table):
        return given
    try:
        return pa.table(given)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{name}: cannot be read as an Arrow table ({error})") from error


def column_of(table: pa.Table, column: str, name: str) -> pa.ChunkedArray:
    """A column of the table.

    Raises:
        InputError: it is missing; the message names the existing ones.
    """
    if column not in table.column_names:
        found = ", ".join(table.column_names) or "none"
        raise InputError(f"{name}: expected a column {column}; found {found}")
    return table[column]


def id_of(given: Any, field: str) -> str:
    """An id as a string; an integer is written in decimal.

    Raises:
        ValueError: another type, empty, or with white space in it.
    """
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return str(int(given))
    if not isinstance(given, str):
        raise ValueError(f"expected a string as {field}, found {shown(given)}")
    return checked_id(str(given), field=field)
