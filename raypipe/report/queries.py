"""Where the systems of a finished workspace differ, query by query; one query side by side."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.errors import InputError
from raypipe.evaluation.compare import DEFAULT_CUTOFF, unjudged
from raypipe.evaluation.measures import Measured, evaluate
from raypipe.evaluation.names import cutoffs_in, grades_of
from raypipe.report.charts import Chart
from raypipe.report.finished import (
    Finished,
    RankedUnit,
    about,
    compared_with,
    judgements_of,
    marked,
    measures_of,
    of_system,
    outside,
    relevant_grade,
)
from raypipe.report.page import ReportSection, Table, Value
from raypipe.vocabulary import Unit, units

NUM_QUERIES = 10
LENGTHS = ((0, 0), (1, 2), (3, 4), (5, 7), (8, 12), (13, None))
"""Words of a query, from and to."""
NUMBERS_RELEVANT = ((0, 0), (1, 1), (2, 3), (4, 9), (10, 49), (50, None))
_WORD = re.compile(r"\w+")
Values = Mapping[str, Mapping[str, float]]
"""System -> query -> value."""
MOST_POINTS = 400
"""Points of a line at most. A picture shows no more."""
NUM_CANDIDATES = 10
NUM_NEAR = 3
NOT_JUDGED = "not judged"


def queries(
    finished: Finished,
    query_set: str,
    *,
    num: int = NUM_QUERIES,
    unit: Unit = "passages",
    each: bool = False,
) -> ReportSection:
    """The first measure by query: the most changed and the hardest, by length and by judgements.

    A query's change is that of the last system of the recipe against the recipe's baseline, or
    against the first system. The hardest queries are those whose best system is worst. Runs over a
    larger collection have no part in either.

    Args:
        finished: the workspace.
        query_set: a judged query set.
        num: queries in a list.
        unit: the systems that rank passages, or those that rank documents.
        each: add every query's value.

    Raises:
        InputError: no judgements of the unit, no measures, or no run of it.
    """
    least = relevant_grade(finished)
    judged = judgements_of(finished, query_set, unit)
    grades = grades_of(judged)
    relevant = {q: sum(grade >= least for grade in own.values()) for q, own in grades.items()}
    measures, systems = measures_of(finished), finished.systems(query_set, unit)
    if not systems:
        other = "documents" if unit == "passages" else "passages"
        raise InputError(
            f"{finished.workspace.folder}: the query set {query_set} has no run of {unit}, only "
            f"of {other}; expected a stage that ranks {unit}"
        )
    shown = {name: marked(finished, name) for name in systems}
    measured = {name: of_system(finished, query_set, name, unit) for name in systems}
    measure = measures[0]
    values = {name: found.per_query[measure] for name, found in measured.items()}
    starred = {shown[name]: of_one for name, of_one in values.items()}
    texts = finished.query_texts(query_set)
    base, _, alike = compared_with(finished, systems)
    best = alike[-1]
    known = [query for query in values[base] if query in texts]
    change = {query: values[best][query] - values[base][query] for query in known}
    highest = {query: max(values[name][query] for name in alike) for query in known}

    def listed(title: str, chosen: list[str]) -> Table:
        rows: list[list[Value]] = [
            [query, texts[query], relevant[query], *(values[name][query] for name in systems)]
            for query in chosen
        ]
        return Table(title, ["query", "text", "relevant", *shown.values()], rows)

    gained = sorted(known, key=lambda query: (-change[query], query))[:num]
    lost = sorted(known, key=lambda query: (change[query], query))[:num]
    hardest = sorted(known, key=lambda query: (highest[query], query))[:num]
    tables = [
        listed(f"{measure}: gained most, {best} over {base}", [q for q in gained if change[q] > 0]),
        listed(f"{measure}: lost most, {best} over {base}", [q for q in lost if change[q] < 0]),
        listed(f"{measure}: hardest for every system", hardest),
        by_words(measure, starred, {query: texts[query] for query in known}),
        by_relevant(measure, unit, starred, {query: relevant[query] for query in known}),
    ]
    tables += [listed(f"{measure} of every query", known)] if each else []
    notes = [
        *about(finished, query_set, unit),
        f"values are {measure}; relevant: grade {least} or higher",
        *_left_out(texts, measured, grades),
        *outside(finished, query_set, systems),
    ]
    name = "queries" if unit == "passages" else "queries of documents"
    of_alike = {shown[name]: values[name] for name in alike}
    charts = [_differences(measure, shown[base], of_alike)] if len(alike) > 1 else []
    return ReportSection(name, query_set, tables, charts, notes)


def _differences(measure: str, base: str, values: Mapping[str, Mapping[str, float]]) -> Chart:
    """A line for each system but the one that they are compared with."""
    lines = {
        name: sorted_differences(of_one, values[base])
        for name, of_one in values.items()
        if name != base
    }
    title = f"{measure} by query, difference to {base}"
    return Chart(title, "queries, from most gained to most lost", f"{measure}, difference", lines)


def _left_out(
    texts: Mapping[str, str],
    measured: Mapping[str, Measured],
    grades: Mapping[str, Mapping[str, int]],
) -> list[str]:
    """Notes on queries without judgement, without a text and without a line in a run."""
    notes = []
    if unjudged := sum(query not in grades for query in texts):
        notes.append(f"queries of the set without judgements, counted nowhere: {unjudged:,}")
    if absent := sum(query not in texts for query in grades):
        notes.append(
            f"judged queries that are not in the set: {absent:,}; they count 0 and are not listed"
        )
    for name, values in measured.items():
        if missing := sum(query in texts for query in values.missing_queries):
            notes.append(f"judged queries without a line in {name}, which count 0: {missing:,}")
    return notes


def by_words(measure: str, values: Values, texts: Mapping[str, str]) -> Table:
    """A row for each number of words."""
    counts = {query: len(_WORD.findall(text)) for query, text in texts.items()}
    return _grouped(f"{measure} by words of the query", "words", LENGTHS, values, counts)


def by_relevant(measure: str, unit: Unit, values: Values, relevant: Mapping[str, int]) -> Table:
    """A row for each number of relevant passages or documents."""
    title = f"{measure} by relevant {unit}"
    return _grouped(title, "relevant", NUMBERS_RELEVANT, values, relevant)


def _grouped(
    title: str,
    column: str,
    bounds: tuple[tuple[int, int | None], ...],
    values: Values,
    counts: Mapping[str, int],
) -> Table:
    rows: list[list[Value]] = []
    for low, high in bounds:
        group = [q for q, n in counts.items() if low <= n and (high is None or n <= high)]
        if group:
            label = f"{low}" if high == low else f"{low} to {high}" if high else f"{low} or more"
            means = [sum(of_one[q] for q in group) / len(group) for of_one in values.values()]
            rows.append([label, len(group), *means])
    return Table(title, [column, "queries", *values], rows)


def sorted_differences(
    values: Mapping[str, float], baseline: Mapping[str, float], *, most: int = MOST_POINTS
) -> list[tuple[float, float]]:
    """(place from 1, `values` minus `baseline`) of each query, the largest difference first.

    Among places with the same difference only the first and the last are kept, which draw the same
    line. If more than `most` points are left, `most` at even distances are kept, with both ends.
    """
    ordered = sorted((value - baseline[query] for query, value in values.items()), reverse=True)
    kept = [
        (float(place + 1), difference)
        for place, difference in enumerate(ordered)
        if place in (0, len(ordered) - 1)
        or not ordered[place - 1] == difference == ordered[place + 1]
    ]
    if len(kept) <= most:
        return kept
    step = (len(kept) - 1) / (most - 1)
    return [kept[round(number * step)] for number in range(most)]


class QueryOfSet(NamedTuple):
    """A query of a set."""

    query_set: str
    row: int
    query_id: str
    text: str


def find_query(finished: Finished, query_id: str, query_set: str | None) -> list[QueryOfSet]:
    """The query in each query set that has its id, or in the one that is named.

    Raises:
        InputError: no such query set, or none with such a query; it names the nearest ids.
    """
    matches, sets, known = [], [], list[str]()
    for name in finished.chosen(query_set):
        table = finished.queries(name)
        ids = table["query_id"].to_pylist()
        if query_id in ids:
            row = ids.index(query_id)
            matches.append(QueryOfSet(name, row, query_id, table["text"][row].as_py()))
        sets.append(f"{name} ({len(ids):,} queries)")
        known += ids
    if not matches:
        near = get_close_matches(query_id, known, n=NUM_NEAR)
        more = f"did you mean {_listed(near)}?" if near else f"expected such as {_listed(known)}"
        raise InputError(f"--query {query_id}: no such query in {' or '.join(sets)}; {more}")
    return matches


def _listed(ids: list[str]) -> str:
    return " or ".join(list(dict.fromkeys(ids))[:NUM_NEAR]) or "none: the query set is empty"


@dataclass(frozen=True, slots=True)
class PlaceInList:
    """Where a system has a candidate."""

    rank: int
    score: float
    """The true score, which a run file may have lowered."""
    scored_by: str
    """The stage that scored it: below a reranker's first k, the stage before it."""


Lists: TypeAlias = Mapping[str, Mapping[int, PlaceInList]]
"""System -> row of each of its candidates -> place."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One passage or document, and where the systems have it."""

    name: str
    """Its original id."""
    grade: int | None
    """None if it was not judged."""
    text: str
    shared: Sequence[str]
    """The query's words that it has too."""
    places: Mapping[str, PlaceInList]
    """System -> place; without the systems that do not have it."""


def chosen(lists: Lists, relevant: Mapping[int, int], num: int) -> list[int]:
    """The rows to show: every system's first `num`, and the `num` relevant ones of highest grade.

    They are in the order of the last system, then of the one before it, and so on. Relevant ones
    that no system has come last, higher grades first, then by row.

    Args:
        lists: see `Lists`.
        relevant: row -> grade.
        num: of each system.
    """
    first = {row for own in lists.values() for row, place in own.items() if place.rank <= num}
    missed = sorted(relevant.keys() - first, key=lambda row: (-relevant[row], row))[:num]
    last_first = [*lists.values()][::-1]

    def order(row: int) -> tuple[float, ...]:
        ranks = [own[row].rank if row in own else float("inf") for own in last_first]
        return (*ranks, -relevant.get(row, 0), row)

    return sorted([*first, *missed], key=order)


def shared_words(query: str, passage: str) -> list[str]:
    """The query's words that the passage has too, in lower case and each once, in their order."""
    there = set(_WORD.findall(passage.lower()))
    return [word for word in dict.fromkeys(_WORD.findall(query.lower())) if word in there]


def side_by_side(candidates: Sequence[Candidate], systems: Sequence[str], unit: str) -> Table:
    """A row for each candidate: id, grade, rank and true score in every system, words and text.

    Where a stage below scored some of a system's candidates, a column says which stage did.
    """
    below = {
        name
        for candidate in candidates
        for name, place in candidate.places.items()
        if place.scored_by != name
    }
    columns = [unit.removesuffix("s"), "grade"]
    for name in systems:
        columns += [name, f"{name} score", *([f"{name} scored by"] if name in below else [])]
    rows: list[list[Value]] = []
    for candidate in candidates:
        grade = NOT_JUDGED if candidate.grade is None else candidate.grade
        row: list[Value] = [candidate.name, grade]
        for name in systems:
            place = candidate.places.get(name)
            row += [None, None] if place is None else [place.rank, place.score]
            if name in below:
                row.append(None if place is None else place.scored_by)
        rows.append([*row, ", ".join(candidate.shared) or "none", candidate.text])
    title = f"The first {unit} of every system, and the relevant ones"
    return Table(title, [*columns, "shared words", "text"], rows)


@dataclass(frozen=True)
class QueryView:
    """A query in the systems that rank passages, or in those that rank documents."""

    query: QueryOfSet
    unit: Unit
    systems: Table
    """A row for each system: its number of candidates, and what it is worth for this query."""
    candidates: Sequence[Candidate]
    notes: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The systems' names."""
        return [str(row[0]) for row in self.systems.rows]

    def section(self) -> ReportSection:
        """All of it as tables."""
        tables = [self.systems, side_by_side(self.candidates, self.names, self.unit)]
        name = f"query {self.query.query_id}, {self.unit}"
        return ReportSection(
            name, self.query.query_set, tables, (), self.notes, lead=self.query.text
        )


def show(
    finished: Finished,
    query_id: str,
    *,
    query_set: str | None = None,
    systems: Sequence[str] = (),
    num: int = NUM_CANDIDATES,
) -> list[QueryView]:
    """The query in every query set that has its id, of passages first, then of documents.

    Args:
        finished: the workspace.
        query_id: its id in the queries file.
        query_set: one query set alone.
        systems: some systems alone, in this order; all of them unless given.
        num: how many of each system's first candidates, and of the other relevant ones at most.

    Raises:
        InputError: no such query, query set or system.
    """
    shown = []
    for query in find_query(finished, query_id, query_set):
        _check_systems(finished, query.query_set, systems)
        named_systems = dict.fromkeys(systems)
        for unit in units():
            own = finished.systems(query.query_set, unit)
            names = [name for name in named_systems if name in own] if named_systems else own
            if names:
                shown.append(_of_unit(finished, query, unit, names, num))
    return shown


def _check_systems(finished: Finished, query_set: str, systems: Sequence[str]) -> None:
    known = [name for unit in units() for name in finished.systems(query_set, unit)]
    problems = [
        f"--system {name}: no run of {query_set}; expected one of {', '.join(known)}"
        for name in systems
        if name not in known
    ]
    if problems:
        raise InputError(problems)


def _of_unit(
    finished: Finished, query: QueryOfSet, unit: Unit, names: Sequence[str], num: int
) -> QueryView:
    runs = {name: finished.run_of_query(name, query.query_set, query.row) for name in names}
    lists = {name: _places(run) for name, run in runs.items()}
    judged = finished.judgements(query.query_set, unit)
    if judged is not None:
        judged = judged.filter(pc.equal(judged["query_id"], query.query_id))
    grades = grades_of(judged).get(query.query_id, {}) if judged is not None else {}
    least = relevant_grade(finished) if finished.recipe.evaluate is not None else 1
    here = finished.ranked(unit)
    known = _rows_of(here, lists, list(grades))
    relevant = {row: grades[name] for name, row in known.items() if grades[name] >= least}
    rows = np.array(chosen(lists, relevant, num), np.int64)
    texts, ids = here.texts(rows), here.ids(rows)
    candidates = [
        Candidate(
            name,
            grades.get(name),
            text,
            shared_words(query.text, text),
            {system: own[row] for system, own in lists.items() if row in own},
        )
        for row, name, text in zip(rows.tolist(), ids, texts, strict=True)
    ]
    notes = [_about(grades, least, unit)]
    absent = [name for name in grades if name not in known and grades[name] >= least]
    if absent:
        where = "not in the collection" if here.index is not None else "in no run"
        more = f" and {len(absent) - num:,} more" if len(absent) > num else ""
        notes.append(f"relevant, but {where}: {', '.join(absent[:num])}{more}")
    notes += finished.left_out(query.query_set, names)
    of_unit = {name: finished.named(run, query.query_set, unit) for name, run in runs.items()}
    return QueryView(query, unit, _worth(finished, of_unit, judged), candidates, notes)


def _places(run: pa.Table) -> dict[int, PlaceInList]:
    columns = (run[name].to_pylist() for name in ("passage_row", "rank", "score", "scored_by"))
    return {row: PlaceInList(*told) for row, *told in zip(*columns, strict=True)}


def _rows_of(here: RankedUnit, lists: Lists, ids: Sequence[str]) -> dict[str, int]:
    """The rows of judged ids: of the index of ids, or of the lists where there is none."""
    if here.index is not None:
        pairs = zip(ids, here.rows_of(ids).tolist(), strict=True)
        return {name: row for name, row in pairs if row >= 0}
    rows = np.array(sorted({row for own in lists.values() for row in own}), np.int64)
    judged_ids = set(ids)
    named = zip(here.ids(rows), rows.tolist(), strict=True)
    return {name: row for name, row in named if name in judged_ids}


def _about(grades: dict[str, int], least: int, unit: Unit) -> str:
    if not grades:
        return f"no {unit} were judged for this query"
    num = sum(grade >= least for grade in grades.values())
    return f"judged {unit}: {len(grades):,}; relevant, of grade {least} or higher: {num:,}"


def _worth(finished: Finished, runs: dict[str, pa.Table], judged: pa.Table | None) -> Table:
    """A row for each system: its candidates, the recipe's measures and its shares of unjudged."""
    evaluated = finished.recipe.evaluate
    if judged is None or not len(judged) or evaluated is None:
        return Table("Systems", ["system", "candidates"], [[n, len(r)] for n, r in runs.items()])
    ks = sorted({DEFAULT_CUTOFF, *cutoffs_in(evaluated.measures)})
    grades = grades_of(judged)
    rows: list[list[Value]] = []
    for name, run in runs.items():
        values = dict.fromkeys(evaluated.measures, 0.0)  # as a query counts that a run lacks
        if len(run):
            values = evaluate(run, judged, evaluated.measures, warn=False).mean
        missing = [unjudged(run, grades, k) if len(run) else None for k in ks]
        rows.append([name, len(run), *(values[m] for m in evaluated.measures), *missing])
    columns = ["system", "candidates", *evaluated.measures, *(f"unjudged@{k}" for k in ks)]
    return Table("Systems", columns, rows)
