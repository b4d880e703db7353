"""The systems of a finished pipeline: a table of measures, and the first screen of its page."""

from collections.abc import Sequence
from pathlib import Path

from raypipe.driver.measure import of_wikipedia
from raypipe.driver.summaries import RESULTS, SUMMARY
from raypipe.errors import InputError
from raypipe.evaluation.compare import Comparison, compare_measured
from raypipe.evaluation.measures import warn_of
from raypipe.evaluation.names import parse_measures
from raypipe.evaluation.significance import Difference, difference
from raypipe.evaluation.tables import INFERENCES, OUTSIDE, Results, Row, rows_of
from raypipe.report.charts import Chart
from raypipe.report.finished import (
    Finished,
    about,
    comparable,
    compared_with,
    cut,
    judgements_of,
    marked,
    measured,
    measures_of,
    of_system,
    outside,
)
from raypipe.report.page import ReportSection, Table, Value, shown
from raypipe.storage.files import replace_file
from raypipe.vocabulary import Unit, units

JUDGED_AT = 10
JUDGED = f"Judged@{JUDGED_AT}"
COSTS = ("ms/query", "inferences/query", "computed/query")
DIFFERENCES = (
    "system", "measure", "difference", "low", "high", "wins/ties/losses", "p", "p (Holm)",
)  # fmt: skip


def results(
    finished: Finished, query_set: str | None = None, measures: Sequence[str] = ()
) -> list[Results]:
    """A table for each query set with judgements, or for the one that is named.

    Without `measures` they are the recipe's. The comparisons are those of `compare`: paired tests,
    with Holm's correction over the systems and measures of one table.

    Raises:
        InputError: an unknown query set or measure, or nothing that was measured.
    """
    chosen = finished.chosen(query_set)
    if measures:
        parse_measures(measures)
    chosen_measures = list(dict.fromkeys(measures)) or measures_of(finished)
    tables = [
        _results(finished, name, unit, chosen_measures)
        for name in chosen
        for unit in units()
        if finished.measured(name, unit)
    ]
    if not tables and query_set is not None:
        judgements_of(finished, query_set)  # tells that there are none
    if not tables:
        raise InputError(
            f"{finished.workspace.folder}: no query set was measured; add qrels and evaluate to "
            "the recipe, and run it again"
        )
    return tables


def _results(finished: Finished, query_set: str, unit: Unit, measures: Sequence[str]) -> Results:
    judged = judgements_of(finished, query_set, unit)
    values = {
        name: measured(finished, query_set, finished.run(name, query_set), measures, unit)
        for name in finished.systems(query_set, unit)
    }
    means = {name: of_system.mean for name, of_system in values.items()}
    larger = {name: finished.larger_collection(name) for name in values}
    evaluated = finished.recipe.evaluate
    baseline = evaluated.baseline if evaluated is not None else None
    comparisons: dict[tuple[str, str], Comparison] = {}
    differences: dict[str, dict[str, Difference]] = {}
    family = 0
    if baseline is not None and baseline in values:
        alike = {name: of for name, of in values.items() if larger[name] == larger[baseline]}
        if with_means := comparable(measures):
            warn_of(alike)
            compared = compare_measured(alike, with_means, baseline=baseline)
            comparisons = {(row.run, row.measure): row for row in compared.rows}
            family = compared.family
        known = {key: row.difference for key, row in comparisons.items()}
        base = alike.pop(baseline).per_query
        differences = {  # of counts too, which no test compares, as in the pipeline's own table
            name: {
                m: known.get((name, m)) or difference(of.per_query[m], base[m]) for m in measures
            }
            for name, of in alike.items()
        }
    notes = finished.summary["notes"].get(query_set, {}).get(unit)
    described = about(finished, query_set, unit)
    starred_here = any(each is not None for each in larger.values())
    return Results(
        recipe=finished.recipe.name,
        query_set=query_set,
        unit=unit,
        measures=measures,
        num_topics=len(set(judged["query_id"].to_pylist())),
        baseline=baseline if baseline in values else None,
        rows=rows_of(
            finished.summary["systems"][query_set],
            means,
            differences,
            num_queries=len(finished.queries(query_set)),
            larger=larger,
        ),
        comparisons=comparisons,
        family=family,
        notes=[
            *(described if notes is None else notes),
            *([OUTSIDE] if starred_here and OUTSIDE not in (notes or ()) else []),
        ],
        about=described,
    )


def overview(finished: Finished, query_set: str, unit: Unit = "passages") -> ReportSection:
    """Every system with its measures, cost and share of judged passages, and the best in words."""
    judgements_of(finished, query_set, unit)  # tells if there are none
    measures = measures_of(finished)
    systems = finished.systems(query_set, unit)
    values = {name: of_system(finished, query_set, name, unit) for name in systems}
    means = {name: of_one.mean for name, of_one in values.items()}
    base, is_named, alike = compared_with(finished, systems)
    with_means = comparable(measures)
    of_alike = {name: values[name] for name in alike}
    compared = compare_measured(of_alike, with_means, baseline=base).rows
    facts = finished.summary["systems"][query_set]
    measured_rows = rows_of(facts, means, {}, num_queries=len(finished.queries(query_set)))
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
        for row in measured_rows
    ]
    judged_at = [] if JUDGED in measures else [JUDGED]
    columns = ["system", "reranks", "model", *measures, *judged_at, *COSTS]
    tables = [Table("Systems", columns, rows)]
    if len(alike) > 1 and with_means:
        tables.append(_differences(compared, base))
    lead, charts = "", list[Chart]()
    if with_means:
        first = with_means[0]
        best = max(alike, key=lambda name: means[name][first])
        lead = _best(best, base, compared, first, is_named=is_named)
        if len(alike) > 1:
            charts = [_chart(finished, compared, base, first), _costs(measured_rows, first)]
    notes = [*about(finished, query_set, unit), *outside(finished, query_set, systems)]
    stages = finished.summary["stages"].values()
    if quarantined := sum(made["shards"]["quarantined"] for made in stages):
        notes.append(f"rows that could not be computed and are left out: {quarantined:,}")
    notes += of_wikipedia(finished.recipe.collection)
    saw = {facts[name]["model"]: facts[name].get("start_weights") for name in systems}
    notes += [f"{model}: its start weights saw {what}" for model, what in saw.items() if what]
    notes.append("ms/query: wall time of the whole chain over all queries, loading excluded")
    notes += [INFERENCES] if any("inferences" in facts[name] for name in systems) else []
    name = "overview" if unit == "passages" else "overview of documents"
    return ReportSection(name, query_set, tables, charts, notes, lead=lead)


def _chart(finished: Finished, compared: list[Comparison], base: str, measure: str) -> Chart:
    """Each system's difference to the baseline, with its interval; 0 for the baseline itself."""
    rows = (row for row in compared if row.measure == measure)
    by_system = {marked(finished, row.run): row.difference for row in rows}
    lines = {n: [(d.mean if d else 0.0, float(y))] for y, (n, d) in enumerate(by_system.items())}
    intervals = {name: (d.low, d.high) for name, d in by_system.items() if d}
    title = f"{measure}: difference to {marked(finished, base)}, with its 95% interval"
    return Chart(title, f"difference in {measure}", "", lines, intervals=intervals)


def _costs(rows: Sequence[Row], measure: str) -> Chart:
    """The measure of each system against its time a query."""
    lines = {
        row.system: [(row.ms_per_query, row.values[measure])]
        for row in rows
        if row.ms_per_query and row.larger_collection is None
    }
    return Chart(f"{measure} against time", "milliseconds a query", measure, lines, log_x=True)


def _judged(finished: Finished, system: str, query_set: str, unit: Unit) -> float:
    """The measure Judged@10, where the recipe does not have it."""
    run = cut(finished.run(system, query_set), JUDGED_AT)
    return measured(finished, query_set, run, [JUDGED], unit).mean[JUDGED]


def _differences(rows: list[Comparison], base: str) -> Table:
    cells: list[list[Value]] = [
        [row.run, row.measure, d.mean, d.low, d.high, d.signs, row.p_randomisation, row.p_holm]
        for row in rows
        if (d := row.difference) is not None  # only the baseline has none
    ]
    return Table(f"Differences to {base}, with 95% intervals", DIFFERENCES, cells)


def _best(best: str, base: str, rows: list[Comparison], measure: str, *, is_named: bool) -> str:
    """The best system in one sentence; if the others are compared with it, the next best too.

    `is_named` tells whether `base` is the recipe's baseline, or the first system in its place.
    """
    of_measure = {row.run: row for row in rows if row.measure == measure}
    row = of_measure.pop(best)
    if row.difference is not None:
        return f"{best} has the best {measure}, {row.mean:.4f}: {_compared(row, base)}"
    which = "the baseline" if is_named else "the first system"
    said = f"{best}, {which}, has the best {measure}, {row.mean:.4f}"
    if not of_measure:
        return said
    after = max(of_measure.values(), key=lambda row: row.mean)
    return f"{said}; next is {after.run}, {after.mean:.4f}: {_compared(after, base)}"


def _compared(row: Comparison, base: str) -> str:
    delta = row.difference
    assert delta is not None  # only `base` has none
    p = shown(row.p_randomisation, "p")
    word = "less" if delta.mean < 0 else "more"
    interval = f"95% interval {delta.low:+.4f} to {delta.high:+.4f}"
    return f"{abs(delta.mean):.4f} {word} than {base} ({interval}, p {p})"


def write_beside(finished: Finished, out: Path, text: str) -> Path:
    """The file, written, or replaced if it was there.

    Raises:
        InputError: it is a folder, in no folder, or a file of the workspace that `verify` compares.
    """
    folder = finished.workspace.folder
    names = (*finished.summary["files"], SUMMARY, RESULTS)
    own = {(folder / name).resolve() for name in names}
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: expected a file in a folder that exists")
    if out.resolve() in own:
        raise InputError(f"--out {out}: a file of the workspace itself; name another")
    replace_file(out, text.encode())
    return out
