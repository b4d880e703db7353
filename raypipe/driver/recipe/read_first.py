"""Reads what a recipe needs only later, before its first store: a mistake in it costs no work."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.config.fields import OWN_ID
from raypipe.config.recipe import Recipe
from raypipe.data.formats.fields import document_before
from raypipe.data.formats.registry import Passage, get_format
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import doubts_of, read_queries
from raypipe.data.reading import first_problems
from raypipe.errors import InputError, some
from raypipe.evaluation.names import check_grades, parse_measures
from raypipe.kinds.read import GivenRun
from raypipe.stages.excluded import read_excluded
from raypipe.vocabulary import Unit, units

log = logging.getLogger(__name__)
Found = TypeVar("Found")
SMALL_BYTES = 10_000_000
"""A run of this size is read whole, where it cannot be read in parts."""


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
            for line in doubts_of(read or ()):
                log.warning("%s: %s", queries.file, line)
            known_ids = None if read is None else {query_id for query_id, _ in read}
            if known_ids is not None:
                problems += _of_runs(recipe, name, known_ids)
        if queries.exclude not in (None, OWN_ID):
            problems += _of_exclusions(Path(queries.exclude), known_ids, queries.file)
        measured = queries.report and recipe.evaluate is not None
        of_others: list[list[str]] = []
        for unit in units():
            qrels = queries.qrels_of(unit)
            if qrels is not None and (measured or queries.only_judged):
                found = _tried(read_qrels, Path(qrels), problems)
                if found is None:
                    continue
                if known_ids is not None:
                    of_others.append(_strange(found, qrels, known_ids, queries.file))
                if measured:
                    judged[name, unit] = found
                    if known:
                        _tried(partial(_check, file=qrels, measures=measures), found, problems)
        if measured or all(of_others):  # `only_judged` keeps the queries of either file
            problems += chain.from_iterable(of_others)
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return judged


def collection_problems(recipe: Recipe) -> list[str]:
    """Problems of the first records of the collection's files; the rest is the workers' to find."""
    collection, split = recipe.collection, recipe.collection.split
    fields = collection.field_names
    kind = get_format(collection.format, fields, collection.id)
    whole = split is not None and split.by != "given"
    parse = kind.document if whole else kind.parse
    problems: list[str] = []
    if parse is not None:
        files = _tried(kind.files, [Path(path) for path in collection.input], problems)
        if files is not None:
            if split is not None and split.delimiter is not None and kind.parse is not None:
                parse = partial(_in_document, kind.parse, split.delimiter)
                kind = replace(kind, parse=parse)
            read = partial(first_problems, kind=kind, parse=parse, errors=collection.errors)
            found = _tried(read, files, problems) or []
            if (
                collection.format == "jsonl"
                and fields is None
                and any(map(_NO_FIELD.search, found))
            ):
                found.append(_OTHER_FIELDS)
            problems += found
    return problems


_NO_FIELD = re.compile(": expected a field ")
_OTHER_FIELDS = (
    "fields of other names are named in the recipe, such as collection.fields: {id: key, body: "
    "content}; without ids, collection.id: file-row makes them"
)


def _in_document(parse: Callable[[Any], Passage], delimiter: str, record: Any) -> Passage:
    """The passage, whose id names its document."""
    passage = parse(record)
    document_before(delimiter, passage[0])
    return passage


def _of_runs(recipe: Recipe, query_set: str, known: set[str]) -> list[str]:
    """Queries that the first lines of given runs name and the query set does not have."""
    problems: list[str] = []
    for stage in recipe.stages.values():
        if isinstance(stage, GivenRun) and query_set in stage.runs:
            problems += _of_run(stage, Path(stage.runs[query_set]), known)
    return problems


def _of_run(stage: GivenRun, file: Path, known: set[str]) -> list[str]:
    from raypipe.evaluation.run_files.runs import NotInPartsError, read_parts, read_run
    from raypipe.stages.read_run import unknown_ids

    problems: list[str] = []
    try:
        part = next(read_parts(file, break_ties=stage.break_ties, unordered=True), None)
    except NotInPartsError:  # it must be read whole, and the stage does that
        small = file.stat().st_size <= SMALL_BYTES
        part = _tried(partial(read_run, unordered=True), file, problems) if small else None
    unknown = set() if part is None else {*part["query_id"].to_pylist()} - known
    return problems + unknown_ids(file, "query", unknown)


def _of_exclusions(file: Path, query_ids: set[str] | None, queries: str | None) -> list[str]:
    """Problems of a file of excluded passages, and a line if it is of no query of the set."""
    problems: list[str] = []
    pairs = _tried(read_excluded, file, problems) or []
    ids = {query_id for query_id, _ in pairs}
    if pairs and query_ids is not None and query_ids.isdisjoint(ids):
        problems.append(
            f"{file}: expected passages that queries of {queries} exclude (such as "
            f"{some(sorted(query_ids))}), found those of other queries only ({some(sorted(ids))}); "
            "name the file of this query set"
        )
    return problems


def _strange(judged: pa.Table, qrels: str, known: set[str], file: str | None) -> list[str]:
    """A line if the judgements are of no query of the set: all systems would count 0, or none of
    its queries would be kept."""
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
