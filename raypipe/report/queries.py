"""The analysis `queries` of a finished workspace: where its systems differ, query by query."""

import re
from collections.abc import Mapping

from raypipe.errors import InputError
from raypipe.evaluation.measures import Measured, grades_of
from raypipe.report.charts import Chart
from raypipe.report.finished import (
    Finished,
    about,
    compared_with,
    judgements_of,
    marked,
    measures_of,
    of_system,
    outside,
    relevant_grade,
)
from raypipe.report.page import Section, Table, Value
from raypipe.vocabulary import Unit

NUM_QUERIES = 10


def queries(
    finished: Finished,
    query_set: str,
    *,
    num: int = NUM_QUERIES,
    unit: Unit = "passages",
    each: bool = False,
) -> Section:
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
    return Section(name, query_set, tables, charts, notes)


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
    for name, found in measured.items():
        if missing := sum(query in texts for query in found.missing_queries):
            notes.append(f"judged queries without a line in {name}, which count 0: {missing:,}")
    return notes


LENGTHS = ((0, 0), (1, 2), (3, 4), (5, 7), (8, 12), (13, None))
"""Words of a query, from and to."""
NUMBERS_RELEVANT = ((0, 0), (1, 1), (2, 3), (4, 9), (10, 49), (50, None))
_WORD = re.compile(r"\w+")
Values = Mapping[str, Mapping[str, float]]
"""System -> query -> value."""


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


MOST_POINTS = 400
"""Of a line; a picture shows no more."""


def sorted_differences(
    values: Mapping[str, float], baseline: Mapping[str, float], *, most: int = MOST_POINTS
) -> list[tuple[float, float]]:
    """(place from 1, `values` minus `baseline`) of each query, the largest difference first.

    Of places with the same difference only the first and the last are kept, which draw the same
    line; of more than `most` points that are left, as many at even distances, with both ends.
    """
    found = sorted((value - baseline[query] for query, value in values.items()), reverse=True)
    kept = [
        (float(place + 1), difference)
        for place, difference in enumerate(found)
        if place in (0, len(found) - 1) or not found[place - 1] == difference == found[place + 1]
    ]
    if len(kept) <= most:
        return kept
    step = (len(kept) - 1) / (most - 1)
    return [kept[round(number * step)] for number in range(most)]
