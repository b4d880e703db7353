"""The ties of the systems' true scores, and how much of each measure they leave open."""

from collections.abc import Mapping

import pyarrow as pa

from raypipe.analysis.by_query.ties import left_open
from raypipe.analysis.section import Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import judgements_of
from raypipe.evaluation.measured import Measured
from raypipe.vocabulary import Unit

COLUMNS = ("system", "measure", "least", "reported", "greatest", "ties", "mixed", "open")


def ties_table(
    finished: Finished,
    query_set: str,
    unit: Unit,
    named: Mapping[str, pa.Table],
    of_system: Mapping[str, Measured],
) -> tuple[Table | None, list[str]]:
    """The systems with ties, a row for each measure, and notes; None if no system has a tie.

    Args:
        finished: the workspace.
        query_set: a judged query set.
        unit: what the runs rank.
        named: system -> its run, schema.RUN_FILE.
        of_system: system -> what the run is worth as reported.
    """
    judged = judgements_of(finished, query_set, unit)
    rows: list[list[Value]] = []
    without = []
    for name, run in named.items():
        found = left_open(finished.run(name, query_set), run, judged, of_system[name])
        if not found.num_queries:
            without.append(name)
            continue
        for measure, about in found.ranges.items():
            reported = of_system[name].mean[measure]
            least, greatest, num = about or (None, None, None)
            row: list[Value] = [name, measure, least, reported, greatest]
            rows.append([*row, found.num_queries, found.num_mixed, num])
    notes = [f"systems without ties: {', '.join(without)}"] if without else []
    if not rows:
        return None, notes
    notes.append(
        "ties: queries with equal true scores; mixed: of them, those with ties between grades; "
        "open: queries whose value depends on the order of ties; least, greatest: over every order"
    )
    return Table("Ties of the true scores, under every order", list(COLUMNS), rows), notes
