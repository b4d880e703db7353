"""The first screen of a report: which system is best, by how much, at what cost, seen by whom."""

from collections.abc import Mapping
from types import MappingProxyType

from raypipe.driver.measure import OF_WIKIPEDIA, WIKIPEDIA
from raypipe.evaluation.compare import Comparison, compare_measured
from raypipe.evaluation.names import counts_in
from raypipe.evaluation.tables import INFERENCES, rows_of
from raypipe.report.finished import (
    Finished,
    about,
    compared_with,
    cut,
    judgements_of,
    marked,
    measured,
    measures_of,
    of_system,
    outside,
)
from raypipe.report.section import Chart, Section, Table, Value, shown
from raypipe.vocabulary import Unit

JUDGED_AT = 10
JUDGED = f"Judged@{JUDGED_AT}"
COSTS = ("ms/query", "inferences/query", "computed/query")
DIFFERENCE = ("difference", "low", "high", "wins/ties/losses", "p", "p (Holm)")


def overview(
    finished: Finished,
    query_set: str,
    unit: Unit = "passages",
    *,
    facts: Mapping[str, Value] = MappingProxyType({}),
) -> Section:
    """Every system with its measures, cost and share of judged passages, and the best in words.

    Args:
        finished: the workspace.
        query_set: one with judgements of the unit.
        unit: what the systems rank.
        facts: what else to tell of the workspace.
    """
    judgements_of(finished, query_set, unit)  # tells if there are none
    measures = measures_of(finished)
    systems = finished.systems(query_set, unit)
    values = {name: of_system(finished, query_set, name, unit) for name in systems}
    means = {name: found.mean for name, found in values.items()}
    base, is_named, alike = compared_with(finished, systems)
    counts = counts_in(measures)
    comparable = [measure for measure in measures if measure not in counts]
    of_alike = {name: values[name] for name in alike}
    compared = compare_measured(of_alike, comparable, baseline=base).rows
    told = finished.summary["systems"][query_set]
    found = rows_of(told, means, {}, num_queries=len(finished.queries(query_set)))
    rows: list[list[Value]] = [
        [
            marked(finished, row.system),
            row.reranks or None,
            row.model or None,
            *(row.values[measure] for measure in measures),
            *([] if JUDGED in measures else [_judged(finished, row.system, query_set, unit)]),
            row.ms_per_query,
            row.inferences,
            row.computed,
        ]
        for row in found
    ]
    judged_at = [] if JUDGED in measures else [JUDGED]
    columns = ["system", "reranks", "model", *measures, *judged_at, *COSTS]
    tables = [Table("Systems", columns, rows)]
    if len(alike) > 1 and comparable:
        tables.append(_differences(compared, base))
    lead, told_first, saw_first = "", dict[str, Value](), dict[str, Value]()
    charts: list[Chart] = []
    if comparable:
        best = max(alike, key=lambda name: means[name][comparable[0]])
        lead = _best(best, base, compared, comparable[0], is_named=is_named)
        of_best = dict(zip(columns, rows[systems.index(best)], strict=True))
        first = (comparable[0], JUDGED, *COSTS)
        told_first = {f"{name} of {best}": of_best[name] for name in first}
        charts += [_chart(finished, compared, base, comparable[0])] if len(alike) > 1 else []
        saw_first["its start weights saw"] = told[best].get("start_weights") or "it has none"
    told_first |= {**facts, **saw_first}
    notes = [*about(finished, query_set, unit), *outside(finished, query_set, systems)]
    if finished.recipe.collection.format in OF_WIKIPEDIA:
        notes.append(WIKIPEDIA)
    saw = {told[name]["model"]: told[name].get("start_weights") for name in systems}
    notes += [f"{model}: its start weights saw {what}" for model, what in saw.items() if what]
    notes.append("ms/query: wall time of the whole chain over all queries, loading excluded")
    notes += [INFERENCES] if any("inferences" in told[name] for name in systems) else []
    name = "overview" if unit == "passages" else "overview of documents"
    return Section(name, query_set, tables, charts, notes, lead=lead, facts=told_first)


def _chart(finished: Finished, compared: list[Comparison], base: str, measure: str) -> Chart:
    """The measure of each system, with the interval of its difference to the baseline."""
    rows = {marked(finished, row.run): row for row in compared if row.measure == measure}
    (mean,) = (row.mean for row in rows.values() if row.difference is None)
    found = {name: row.difference for name, row in rows.items()}
    intervals = {name: (mean + d.low, mean + d.high) for name, d in found.items() if d}
    lines = {name: [(row.mean, float(place))] for place, (name, row) in enumerate(rows.items())}
    title = f"{measure}, with the 95% interval of the difference to {marked(finished, base)}"
    return Chart(title, measure, "", lines, intervals=intervals)


def _judged(finished: Finished, system: str, query_set: str, unit: Unit) -> float:
    """The measure Judged@10, where the recipe does not have it."""
    run = cut(finished.run(system, query_set), JUDGED_AT)
    return measured(finished, query_set, run, [JUDGED], unit).mean[JUDGED]


def _differences(rows: list[Comparison], base: str) -> Table:
    found: list[list[Value]] = [
        [row.run, row.measure, *difference_of(row)] for row in rows if row.run != base
    ]
    columns = ["system", "measure", *DIFFERENCE]
    return Table(f"Differences to {base}, with 95% intervals", columns, found)


def difference_of(row: Comparison) -> list[Value]:
    """The values of DIFFERENCE of a run that is not the baseline."""
    found = row.difference
    assert found is not None  # only the baseline has none
    tests = (row.p_randomisation, row.p_holm)
    return [found.mean, found.low, found.high, found.signs, *tests]


def _best(best: str, base: str, rows: list[Comparison], measure: str, *, is_named: bool) -> str:
    """The best system in one sentence; if the others are compared with it, the next best too.

    `is_named` tells whether `base` is the recipe's baseline, or the first system in its place.
    """
    of_measure = {row.run: row for row in rows if row.measure == measure}
    row = of_measure.pop(best)
    if row.difference is not None:
        return f"best by {measure}: {best}, {row.mean:.4f}; {_compared(row, base)}"
    which = "the baseline" if is_named else "the first system"
    said = f"best by {measure}: {best}, {which}, {row.mean:.4f}"
    if not of_measure:
        return said
    after = max(of_measure.values(), key=lambda row: row.mean)
    return f"{said}; next {after.run}, {after.mean:.4f}; {_compared(after, base)}"


def _compared(row: Comparison, base: str) -> str:
    found = row.difference
    assert found is not None  # only `base` has none
    p = shown(row.p_randomisation, "p")
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}] over {base}, p {p}"
