"""Measures over the snapshots of a collection, and how far they moved from the first of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from raypipe.driver.snapshots import read_record, values_of
from raypipe.errors import InputError
from raypipe.evaluation.significance import change
from raypipe.markdown import Table, Value
from raypipe.report.charts import Chart
from raypipe.report.page import ReportSection

NAME = "snapshots"
MEASURED = (
    "system", "measure", "snapshot", "queries", "mean", "relative change", "difference", "low",
    "high",
)  # fmt: skip
BUILT = (
    "snapshot", "generation", "passages", "added", "removed", "changed", "rows copied", "seconds",
)  # fmt: skip
RELATIVE = (
    "relative change: the mean minus that of the first judged snapshot, divided by the latter; "
    "LongEval's own RC has the other sign"
)
INTERVALS = (
    "difference: of the means to the first judged snapshot, each over its own judged queries, with "
    "the 95% interval of a bootstrap over the queries of either"
)
Values = Mapping[tuple[str, str], Mapping[str, float]]
"""(system, measure) -> query -> value."""


def over_snapshots(folder: Path, query_set: str | None = None) -> list[ReportSection]:
    """A section for each query set, or the one named; none if the workspace has no snapshots.

    Raises:
        InputError: a file of a snapshot's measures was removed or changed.
    """
    record = read_record(folder)
    if record is None:
        return []
    snapshots = record["snapshots"]
    names = dict.fromkeys(each for entry in snapshots.values() for each in entry["systems"])
    chosen = [name for name in names if query_set in (None, name)]
    return [_section(folder, snapshots, name) for name in chosen]


def _section(folder: Path, snapshots: Mapping[str, Any], query_set: str) -> ReportSection:
    values = {
        name: _read(values_of(folder, query_set, name))
        for name, entry in snapshots.items()
        if query_set in entry["measures"]
    }
    systems = {
        (system, measure): None
        for of_snapshot in values.values()
        for system, measure in of_snapshot
    }
    rows = [row for key in systems for row in _rows(key, [*snapshots], values)]
    tables = [Table("Measures over snapshots", MEASURED, rows)] if rows else []
    tables.append(Table("Snapshots", BUILT, [_built(*each) for each in snapshots.items()]))
    unjudged = [name for name in snapshots if name not in values]
    notes = [RELATIVE, INTERVALS] if rows else []
    if unjudged:
        why = "without judgements" if values else "without judgements or `evaluate.measures`"
        notes.append(f"{why}, so not measured: {', '.join(unjudged)}")
    charts = [_chart(rows, [*snapshots])] if len(values) > 1 else []
    return ReportSection(NAME, query_set, tables, charts, notes)


def _rows(
    key: tuple[str, str], snapshots: list[str], values: Mapping[str, Values]
) -> Iterator[list[Value]]:
    """The rows of a system's measure, a row for each snapshot in order."""
    first: Mapping[str, float] | None = None
    for snapshot in snapshots:
        of_queries = values.get(snapshot, {}).get(key)
        if not of_queries:
            yield [*key, snapshot, *[None] * 6]
            continue
        mean = sum(of_queries.values()) / len(of_queries)
        row: list[Value] = [*key, snapshot, len(of_queries), mean]
        if first is None:
            first = of_queries
            yield [*row, *[None] * 4]
            continue
        moved = change(of_queries, first)
        before = mean - moved.mean
        relative = moved.mean / before if before else None
        yield [*row, relative, moved.mean, moved.low, moved.high]


def _built(name: str, entry: Mapping[str, Any]) -> list[Value]:
    facts = ("passages", "added", "removed", "changed", "rows_copied", "seconds")
    return [name, str(entry["generation"]), *(entry.get(fact) for fact in facts)]


def _chart(rows: list[list[Value]], snapshots: list[str]) -> Chart:
    """The first measure of each system by the number of the snapshot."""
    measure = str(rows[0][1])
    lines: dict[str, list[tuple[float, float]]] = {}
    for system, of_measure, snapshot, _, mean, *_others in rows:
        if of_measure == measure and isinstance(mean, float):
            place = float(1 + snapshots.index(str(snapshot)))
            lines.setdefault(str(system), []).append((place, mean))
    order = ", ".join(f"{number} {name}" for number, name in enumerate(snapshots, 1))
    return Chart(f"{measure} over snapshots", f"snapshot ({order})", measure, lines)


def _read(path: Path) -> Values:
    """The values of a snapshot's runs.

    Raises:
        InputError: the file is not there, or not as it was written.
    """
    values: dict[tuple[str, str], dict[str, float]] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            query, system, measure, value = line.split("\t")
            values.setdefault((system, measure), {})[query] = float(value)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: expected the measures of a snapshot, by query; {error}; run the re-index of "
            f"the snapshots again without {path.parent.parent / 'snapshots.json'}"
        ) from None
    return values
