"""Queries and passages given as lists, dictionaries or tables, turned into ids and texts."""

from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from raypipe.api.given.tables import column_of, id_of, is_table, table_of
from raypipe.data.files.problems import Problems
from raypipe.errors import InputError

Given: TypeAlias = Iterable[str] | Mapping[str, str] | pa.Table
"""A list of texts (ids are positions), a dictionary id -> text, or a table with an id column and
`text`. The position of a text is its row, which decides ties."""


class Texts(NamedTuple):
    """Texts in row order."""

    ids: pa.Array
    """Strings, each once."""
    texts: list[str]


def texts_of(given: Given, kind: str) -> Texts:
    """The texts with their ids, checked.

    Args:
        given: see `Given`; any object that gives an Arrow stream (a DataFrame) is a table.
        kind: query or passage; a table's id column is `query_id` or `passage_id`.

    Raises:
        InputError: one text where several are expected, values that are not texts, bad or repeated
            ids; the first ten.
    """
    if isinstance(given, str | bytes):
        raise InputError(f"{kind} texts: found one text; expected several: put it in a list")
    if isinstance(given, Mapping):
        return _checked(list(given), list(given.values()), kind)
    if is_table(given):
        table = table_of(given, f"{kind} texts")
        ids, texts = (column_of(table, name, f"{kind} texts") for name in (f"{kind}_id", "text"))
        return _checked(ids.to_pylist(), texts.to_pylist(), kind)
    if isinstance(given, pa.Array | pa.ChunkedArray):
        given = given.to_pylist()
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, Iterable) or isinstance(given, Set):
        raise InputError(  # a set has no order, and positions are ids
            f"{kind} texts: found {type(given).__name__}; expected a list of texts, a dictionary "
            f"id -> text, or a table with {kind}_id and text"
        )
    texts = list(given)
    return _checked(list(range(len(texts))), texts, kind)


def ids_of(given: Any, kind: str, count: int) -> pa.Array:
    """The checked ids of `count` vectors; None gives positions.

    Raises:
        InputError: another number of ids, bad or repeated ones.
    """
    ids = list(range(count)) if given is None else _listed(given)
    if len(ids) != count:
        raise InputError(f"{kind}_ids: found {len(ids)}; expected one per vector, {count}")
    return _checked(ids, [""] * count, kind).ids


def _listed(given: Any) -> list[Any]:
    listed = getattr(given, "to_pylist", None) or getattr(given, "tolist", None)
    return list(given) if listed is None else list(listed())


def _checked(ids: list[Any], texts: list[Any], kind: str) -> Texts:
    problems, seen, found = Problems(), dict[str, int](), []
    for row, (given, text) in enumerate(zip(ids, texts, strict=True)):
        try:
            name = id_of(given, f"{kind} id")
        except ValueError as error:
            problems.add(f"{kind} {row}: {error}")
            continue
        if seen.setdefault(name, row) != row:
            problems.add(f"{kind} {row}: id {name!r} again, first at {seen[name]}; keep one")
        problem = _text_problem(text)
        if problem:
            problems.add(f"{kind} {row} (id {name!r}): {problem}")
        found.append(name)
    problems.raise_if_any()
    return Texts(pa.array(found, pa.string()), texts)


def _text_problem(text: Any) -> str:
    if not isinstance(text, str):
        return f"expected a text, found {type(text).__name__}; an empty text is ''"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"not Unicode text ({error.reason}); write U+FFFD in its place"
    return ""
