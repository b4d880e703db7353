"""Reads what a recipe needs only later, before its first store: a mistake in it costs no work."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.config import Recipe
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.evaluation.measured import some
from raypipe.evaluation.measures import check_grades
from raypipe.evaluation.names import parse_measures
from raypipe.vocabulary import Unit, units

Found = TypeVar("Found")


def read_first(recipe: Recipe, others: Sequence[str] = ()) -> Mapping[tuple[str, Unit], pa.Table]:
    """The judgements, `schema.QRELS`, of each query set that will be measured, by what they judge.

    Queries are checked too. The queries of sets without runs are not read. Problems that were found
    before, `others`, are told with those that are found here.

    Raises:
        InputError: every problem of the queries, the judgements and the names of measures;
            judgements of other queries, and grades that a measure does not take.
    """
    judged: dict[tuple[str, Unit], pa.Table] = {}
    problems = list(others)
    measures = [] if recipe.evaluate is None else recipe.evaluate.measures
    known = bool(measures) and _tried(parse_measures, measures, problems) is not None
    for name, queries in recipe.queries.items():
        known_ids = None
        if queries.report and queries.file is not None:
            read = _tried(read_queries, Path(queries.file), problems)
            known_ids = None if read is None else {query_id for query_id, _ in read}
        measured = queries.report and recipe.evaluate is not None
        for unit in units():
            qrels = queries.qrels_of(unit)
            if qrels is not None and (measured or queries.only_judged):
                found = _tried(read_qrels, Path(qrels), problems)
                if found is not None and measured:
                    judged[name, unit] = found
                    if known_ids is not None:
                        problems += _strange(found, qrels, known_ids, queries.file)
                    if known:
                        _tried(partial(_check, file=qrels, measures=measures), found, problems)
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return judged


def _strange(judged: pa.Table, qrels: str, known: set[str], file: str | None) -> list[str]:
    """A line if the judgements are of no query of the set: then all systems would count 0."""
    ids = pc.unique(judged["query_id"]).to_pylist()
    if not known.isdisjoint(ids):
        return []
    return [
        f"{qrels}: expected judgements of queries of {file} (such as {some(sorted(known))}), found "
        f"those of other queries only ({some(ids)}); name the judgements of this query set"
    ]


def _check(judged: pa.Table, *, file: str, measures: Sequence[str]) -> None:
    try:
        check_grades(judged, measures)
    except InputError as error:
        raise InputError([f"{file}: {problem}" for problem in error.problems]) from None


Given = TypeVar("Given")


def _tried(read: Callable[[Given], Found], given: Given, problems: list[str]) -> Found | None:
    try:
        return read(given)
    except InputError as error:
        problems += error.problems
        return None
