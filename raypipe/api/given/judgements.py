"""Judgements given as a dictionary, a table or a file, turned into one table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.api.given.numbers import shown
from raypipe.api.given.tables import column_of, id_of, is_table, table_of
from raypipe.data.files.problems import Problems
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError

Qrels: TypeAlias = pa.Table | Mapping[str, Mapping[str, int]] | str | Path
"""A table with query_id, passage_id and relevance, a dictionary query id -> passage id -> grade,
or the path of a TREC, MS MARCO or BEIR file."""


def qrels_of(given: Qrels) -> pa.Table:
    """The judgements, `schema.QRELS`.

    Raises:
        InputError: no judgements, or invalid ones, with the first ten problems.
    """
    if isinstance(given, str | Path):
        return read_qrels(Path(given))
    if isinstance(given, Mapping):
        return _checked(
            [
                (query, passage, grade)
                for query, grades in given.items()
                for passage, grade in _grades(query, grades).items()
            ]
        )
    if not is_table(given):
        raise InputError(
            f"qrels: found {type(given).__name__}; expected a table with query_id, passage_id and "
            "relevance, a dictionary query id -> passage id -> grade, or the path of a file"
        )
    table = table_of(given, "qrels")
    columns = [column_of(table, name, "qrels").to_pylist() for name in schema.QRELS.names]
    return _checked(list(zip(*columns, strict=True)))


def _grades(query: Any, grades: Any) -> Mapping[Any, Any]:
    if not isinstance(grades, Mapping):
        raise InputError(f"qrels: query {query!r}: expected a dictionary passage id -> grade")
    return grades


def _checked(rows: list[tuple[Any, Any, Any]]) -> pa.Table:
    problems, found = Problems(), []
    for query, passage, grade in rows:
        where = f"qrels: query {query!r}, passage {passage!r}"
        try:
            ids = id_of(query, "query id"), id_of(passage, "passage id")
        except ValueError as error:
            problems.add(f"{where}: {error}")
            continue
        if not isinstance(grade, int | np.integer) or isinstance(grade, bool):
            problems.add(f"{where}: expected an integer grade, found {grade!r}")
            continue
        if not -(2**31) <= grade < 2**31:
            problems.add(f"{where}: expected a grade of 32 bits, found {shown(grade)}")
            continue
        found.append((*ids, int(grade)))
    problems.raise_if_any()
    columns = zip(schema.QRELS.names, zip(*found, strict=True), strict=False)
    lists: dict[str, list[Any]] = {name: [] for name in schema.QRELS.names}
    lists |= {name: list(column) for name, column in columns}
    return pa.table(lists, schema=schema.QRELS)
