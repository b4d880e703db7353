"""How much of what the systems rank first has no judgement."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from raypipe.analysis.section import Table, Value
from raypipe.evaluation.compare import DEFAULT_CUTOFF, unjudged
from raypipe.evaluation.measures import grades_of
from raypipe.evaluation.names import cutoffs_in


def cutoffs(measures: Sequence[str]) -> list[int]:
    """10 and the cutoffs of the measures, ascending."""
    return sorted({DEFAULT_CUTOFF, *cutoffs_in(measures)})


def unjudged_table(
    runs: Mapping[str, pa.Table], judged: pa.Table, measures: Sequence[str]
) -> Table:
    """For each system the share of its first k rows, over the judged queries, without judgement.

    Args:
        runs: system -> schema.RUN_FILE.
        judged: schema.QRELS.
        measures: of the recipe; k is 10 and each of their cutoffs.
    """
    ks, grades = cutoffs(measures), grades_of(judged)
    rows: list[list[Value]] = [
        [name, *(unjudged(run, grades, k) for k in ks)] for name, run in runs.items()
    ]
    return Table("Share of unjudged", ["system", *(f"unjudged@{k}" for k in ks)], rows)


def unjudged_by_query(
    runs: Mapping[str, pa.Table],
    judged: pa.Table,
    measures: Sequence[str],
    queries: Sequence[str],
) -> list[Table]:
    """A table for each k: the share of each query's first k rows that have no judgement.

    None where a system has no row of the query. Arguments as for `unjudged_table`.
    """
    ks, grades = cutoffs(measures), grades_of(judged)
    shares = {name: _shares(run, grades, ks) for name, run in runs.items()}
    tables = []
    for place, k in enumerate(ks):
        rows: list[list[Value]] = []
        for query in queries:
            of_query = [own.get(query) for own in shares.values()]
            rows.append([query, *(own[place] if own else None for own in of_query)])
        tables.append(Table(f"unjudged@{k} of every query", ["query", *runs], rows))
    return tables


def _shares(
    run: pa.Table, grades: Mapping[str, Mapping[str, int]], ks: Sequence[int]
) -> dict[str, list[float]]:
    """Judged query of the run -> its share at each k."""
    flags: dict[str, list[bool]] = {}
    columns = (run[name].to_pylist() for name in ("query_id", "passage_id"))
    for query, passage in zip(*columns, strict=True):  # each query's lines by rank
        if query in grades:
            flags.setdefault(query, []).append(passage not in grades[query])
    return {q: [sum(own[:k]) / len(own[:k]) for k in ks] for q, own in flags.items()}
