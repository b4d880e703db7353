"""Reads what a recipe needs only later, before its first store: a mistake in it costs no work."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from raypipe.config import Recipe
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.evaluation.names import parse_measures
from raypipe.vocabulary import Unit, units

Found = TypeVar("Found")


def read_first(recipe: Recipe) -> Mapping[tuple[str, Unit], pa.Table]:
    """The judgements, `schema.QRELS`, of each query set that will be measured, by what they judge.

    Queries are checked too. The queries of sets without runs are not read.

    Raises:
        InputError: every problem of the queries, the judgements and the names of measures.
    """
    judged: dict[tuple[str, Unit], pa.Table] = {}
    problems: list[str] = []
    if recipe.evaluate is not None:
        _tried(parse_measures, recipe.evaluate.measures, problems)
    for name, queries in recipe.queries.items():
        if queries.report and queries.file is not None:
            _tried(read_queries, Path(queries.file), problems)
        measured = queries.report and recipe.evaluate is not None
        for unit in units():
            qrels = queries.qrels_of(unit)
            if qrels is not None and (measured or queries.only_judged):
                found = _tried(read_qrels, Path(qrels), problems)
                if found is not None and measured:
                    judged[name, unit] = found
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return judged


Given = TypeVar("Given")


def _tried(read: Callable[[Given], Found], given: Given, problems: list[str]) -> Found | None:
    try:
        return read(given)
    except InputError as error:
        problems += error.problems
        return None
