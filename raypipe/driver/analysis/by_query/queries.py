"""The analysis `queries` of a finished workspace: where its systems differ, query by query."""

from collections.abc import Mapping

from raypipe.analysis.by_query.differences import sorted_differences
from raypipe.analysis.section import Chart, Section, Table, Value
from raypipe.driver.analysis.by_query.grouped import by_relevant, by_words
from raypipe.driver.analysis.by_query.ties import ties_table
from raypipe.driver.analysis.by_query.unjudged import unjudged_by_query, unjudged_table
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import (
    about,
    judgements_of,
    measures_of,
    relevant_grade,
)
from raypipe.errors import InputError
from raypipe.evaluation.measured import Measured
from raypipe.evaluation.measures import evaluate, grades_of
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
    against the first system. The hardest queries are those whose best system is worst. Then the
    share of unjudged rows, and what ties of the true scores leave open.

    Args:
        finished: the workspace.
        query_set: a judged query set.
        num: queries in a list.
        unit: the systems that rank passages, or those that rank documents.
        each: add every query's value and share of unjudged rows.

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
    runs = {n: finished.named(finished.run(n, query_set), query_set, unit) for n in systems}
    of_system = {n: evaluate(run, judged, measures, warn=False) for n, run in runs.items()}
    measure = measures[0]
    values = {name: found.per_query[measure] for name, found in of_system.items()}
    texts = finished.query_texts(query_set)
    evaluated = finished.recipe.evaluate
    named = evaluated.baseline if evaluated is not None else None
    base, best = named if named in values else systems[0], systems[-1]
    known = [query for query in values[base] if query in texts]
    change = {query: values[best][query] - values[base][query] for query in known}
    highest = {query: max(of_one[query] for of_one in values.values()) for query in known}

    def listed(title: str, chosen: list[str]) -> Table:
        rows: list[list[Value]] = [
            [query, texts[query], relevant[query], *(values[name][query] for name in systems)]
            for query in chosen
        ]
        return Table(title, ["query", "text", "relevant", *systems], rows)

    gained = sorted(known, key=lambda query: (-change[query], query))[:num]
    lost = sorted(known, key=lambda query: (change[query], query))[:num]
    hardest = sorted(known, key=lambda query: (highest[query], query))[:num]
    tables = [
        listed(f"{measure}: gained most, {best} over {base}", [q for q in gained if change[q] > 0]),
        listed(f"{measure}: lost most, {best} over {base}", [q for q in lost if change[q] < 0]),
        listed(f"{measure}: hardest for every system", hardest),
        by_words(measure, values, {query: texts[query] for query in known}),
        by_relevant(measure, unit, values, {query: relevant[query] for query in known}),
        unjudged_table(runs, judged, measures),
    ]
    ties, told = ties_table(finished, query_set, unit, runs, of_system)
    tables += [ties] if ties is not None else []
    if each:
        tables.append(listed(f"{measure} of every query", known))
        tables += unjudged_by_query(runs, judged, measures, known)
    notes = [
        *about(finished, query_set, unit),
        f"values are {measure}; relevant: grade {least} or higher",
        *_left_out(texts, of_system, grades),
        *told,
    ]
    name = "queries" if unit == "passages" else "queries of documents"
    charts = [_differences(measure, base, values)] if len(systems) > 1 else []
    return Section(name, query_set, tables, charts, notes)


def _differences(measure: str, base: str, values: Mapping[str, Mapping[str, float]]) -> Chart:
    """A line for each system but the baseline."""
    lines = {
        name: sorted_differences(of_one, values[base])
        for name, of_one in values.items()
        if name != base
    }
    title = f"{measure} by query, difference to {base}"
    return Chart(title, "queries, from most gained to most lost", f"{measure}, difference", lines)


def _left_out(
    texts: Mapping[str, str],
    of_system: Mapping[str, Measured],
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
    for name, found in of_system.items():
        if missing := sum(query in texts for query in found.missing_queries):
            notes.append(f"judged queries without a line in {name}, which count 0: {missing:,}")
    return notes
