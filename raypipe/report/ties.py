"""What equal true scores leave open: the systems' measures over every order of their ties."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.evaluation.measures import Measured, grades_of
from raypipe.evaluation.run_files.columns import encode
from raypipe.evaluation.ties import is_sortable
from raypipe.report.finished import Finished
from raypipe.report.measures import judgements_of, marked, measured, places_of
from raypipe.report.section import Table, Value
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


class Range(NamedTuple):
    """One measure over all orders; means over the queries of the qrels."""

    least: float
    greatest: float
    num_queries: int
    """Queries whose value depends on the order."""


class Open(NamedTuple):
    """What the ties of a run leave open."""

    num_queries: int
    """Queries with a tie."""
    num_mixed: int
    """Queries with a tie between different grades: in no other can a measure depend on it."""
    ranges: dict[str, Range | None]
    """Measure -> its range; None where no order is known to be the best, as for counts."""


def left_open(
    run: pa.Table,
    grades: NDArray[np.int64],
    reported: Measured,
    measured: Callable[[pa.Table, Sequence[str]], Measured],
) -> Open:
    """The least and the greatest value of each measure over every order of tied passages.

    Tied are neighbours with the same true score of the same stage: a reranker's scores and those of
    the tail below it are never compared. A tie between a list's last passage and those that were
    cut off is not known, and not counted. The measures never fall when a passage of higher grade
    moves up, so each tie by descending grade gives the greatest value and by ascending grade the
    least. A passage without judgement has grade 0, and so has one with a negative grade.

    Args:
        run: schema.RUN, each query's lines together in rank order, with true scores.
        grades: of each line, int64 [N]; 0 for those without judgement.
        reported: the run's measures in its own order.
        measured: a run's values by some measures.
    """
    queries, block = run["query_row"].to_numpy(), _blocks(run)
    grades = np.maximum(grades, 0)
    tied = np.flatnonzero(block[1:] == block[:-1])
    mixed = tied[grades[tied] != grades[tied + 1]]
    known = [name for name in reported.per_query if is_sortable(name)]
    low, high = ({name: dict(reported.per_query[name]) for name in known} for _ in range(2))
    kept = np.flatnonzero(np.isin(queries, queries[mixed]))
    if len(kept) and known:
        for found, key in ((low, grades), (high, -grades)):
            order = kept[np.lexsort((key[kept], block[kept]))]
            again = measured(_ordered(run, order, kept), known)
            others = set(again.missing_queries)
            for name, values in again.per_query.items():
                found[name] |= {query: v for query, v in values.items() if query not in others}
    ranges: dict[str, Range | None] = dict.fromkeys(reported.per_query)
    for name in known:
        num = sum(low[name][query] != high[name][query] for query in low[name])
        ranges[name] = Range(_mean(low[name]), _mean(high[name]), num)
    return Open(len(np.unique(queries[tied])), len(np.unique(queries[mixed])), ranges)


def _blocks(run: pa.Table) -> NDArray[np.int64]:
    """A number for each line, equal for tied ones and ascending, int64 [N]."""
    queries, scores = run["query_row"].to_numpy(), run["score"].to_numpy()
    stages = encode(run["scored_by"]).codes
    begins = np.ones(len(run), bool)
    for column in (queries, scores, stages):
        begins[1:] &= column[1:] == column[:-1]
    begins[1:] = ~begins[1:]
    return np.cumsum(begins)


def _ordered(run: pa.Table, order: NDArray[np.int64], kept: NDArray[np.int64]) -> pa.Table:
    """The lines of `order` with the ranks, scores and stages of those of `kept`."""
    columns = [run["query_row"].take(order), run["passage_row"].take(order)]
    columns += [run[name].take(kept) for name in ("rank", "score", "scored_by")]
    return pa.table(columns, schema=schema.RUN)


def _mean(values: dict[str, float]) -> float:
    return math.fsum(values.values()) / len(values)
