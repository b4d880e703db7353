"""The table of a report that says what precisions below fp32 changed."""

from raypipe.report.finished import Finished
from raypipe.report.section import Table, Value

FIGURES = ("queries", "scores", "largest_difference", "kendall_tau")
TITLE = "Precision: the same scores in fp32, and the difference of measures to it"


def precision_table(finished: Finished, query_set: str) -> Table | None:
    """A line for each audited stage of a query set; None if every model computed in fp32.

    A stage that was not compared with fp32 has its precision alone.
    """
    told = finished.summary.get("audit", {}).get(query_set)
    if not told:
        return None
    measures = [*dict.fromkeys(name for one in told.values() for name in one.get("measures", {}))]
    columns = ["stage", "precision", *(name.replace("_", " ") for name in FIGURES)]
    columns += [f"{name}{part}" for name in measures for part in ("", " low", " high")]
    rows: list[list[Value]] = []
    for stage, one in told.items():
        found: list[Value] = [stage, one["precision"], *(one.get(name) for name in FIGURES)]
        for name in measures:
            of_measure = one.get("measures", {}).get(name, {})
            found += [of_measure.get(part) for part in ("difference", "low", "high")]
        rows.append(found)
    return Table(TITLE, columns, rows)
