"""The ties of the systems' true scores, and how much of each measure they leave open."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.analysis.by_query.ties import left_open
from raypipe.analysis.section import Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import judgements_of, marked, measured
from raypipe.evaluation.measured import Measured
from raypipe.evaluation.measures import grades_of
from raypipe.ranking.lookup import places_of
from raypipe.vocabulary import Unit

COLUMNS = ("system", "measure", "least", "reported", "greatest", "ties", "mixed", "open")


def ties_table(
    finished: Finished,
    query_set: str,
    unit: Unit,
    values: Mapping[str, Measured],
) -> tuple[Table | None, list[str]]:
    """The systems with ties, a row for each measure, and notes; None if no system has a tie.

    Args:
        finished: the workspace.
        query_set: a judged query set.
        unit: what the runs rank.
        values: system -> what the run is worth as reported.
    """

    def again(run: pa.Table, measures: Sequence[str]) -> Measured:
        return measured(finished, query_set, run, measures, unit)

    rows: list[list[Value]] = []
    without = []
    for name, reported_of in values.items():
        run = finished.run(name, query_set)
        found = left_open(run, _grades(finished, query_set, unit, run), reported_of, again)
        if not found.num_queries:
            without.append(marked(finished, name))
            continue
        for measure, about in found.ranges.items():
            reported = reported_of.mean[measure]
            least, greatest, num = about or (None, None, None)
            row: list[Value] = [marked(finished, name), measure, least, reported, greatest]
            rows.append([*row, found.num_queries, found.num_mixed, num])
    notes = [f"systems without ties: {', '.join(without)}"] if without else []
    if not rows:
        return None, notes
    notes.append(
        "ties: queries with equal true scores; mixed: of them, those with ties between grades; "
        "open: queries whose value depends on the order of ties; least, greatest: over every order"
    )
    return Table("Ties of the true scores, under every order", list(COLUMNS), rows), notes


def _grades(finished: Finished, query_set: str, unit: Unit, run: pa.Table) -> NDArray[np.int64]:
    """The grade of each line, int64 [N]; 0 for those without judgement."""
    if unit == "passages":
        judged = finished.judged_rows(query_set)
        places = places_of(run, judged.query_rows, judged.passage_rows)
        return np.append(judged.grades, 0)[places]  # -1 takes the last
    grades = grades_of(judgements_of(finished, query_set, unit))
    named = finished.named(run, query_set, unit)
    pairs = zip(named["query_id"].to_pylist(), named["passage_id"].to_pylist(), strict=True)
    found = (grades.get(query, {}).get(passage, 0) for query, passage in pairs)
    return np.fromiter(found, np.int64, len(named))
