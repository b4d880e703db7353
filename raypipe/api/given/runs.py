"""A run given as a table, a dictionary or a file, turned into one table."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from raypipe import schema
from raypipe.api.given.tables import id_of, is_table, table_of
from raypipe.data.files.problems import Problems
from raypipe.errors import InputError
from raypipe.evaluation.run_files.parquet import table_lines
from raypipe.evaluation.run_files.runs import ranked, read_run

Run: TypeAlias = pa.Table | Mapping[str, Mapping[str, float]] | str | Path
"""A table with query_id, passage_id, score and, if it decides the order, rank; a dictionary
query id -> passage id -> score; or the path of a run file."""


def run_of(given: Run, name: str = "run") -> pa.Table:
    """The run, `schema.RUN_FILE`: queries in order of first appearance, best first within each.

    The rank decides if there is one; otherwise descending score as float32, then descending passage
    id, as in trec_eval and `read_run`.

    Args:
        given: see `Run`; without any line it is a run of no queries.
        name: the run's name in messages.

    Raises:
        InputError: not a run, with the first ten problems.
    """
    if isinstance(given, str | Path):
        return read_run(given)
    if isinstance(given, Mapping):
        given = table_of_scores(given, name)
    elif not is_table(given):
        raise InputError(
            f"{name}: found {type(given).__name__}; expected a table with query_id, passage_id and "
            "score, a dictionary query id -> passage id -> score, or the path of a run file"
        )
    table = table_of(given, name)
    lines = table_lines(Path(name), table)
    return ranked(Path(name), lines, "parquet") if len(table) else schema.RUN_FILE.empty_table()


def named_runs(given: Mapping[str, Run]) -> dict[str, pa.Table]:
    """Each run of a dictionary name -> run.

    Raises:
        InputError: one of them is not a run, or there are none.
    """
    if not given:
        raise InputError("runs: found none; expected a dictionary name -> run")
    return {str(name): run_of(run, str(name)) for name, run in given.items()}


def is_one_run(given: Any) -> bool:
    """Whether it is a single run rather than a dictionary of runs: its inner values are numbers."""
    if not isinstance(given, Mapping):
        return True
    return all(
        isinstance(scores, Mapping)
        and not any(isinstance(value, Mapping) for value in scores.values())
        for scores in given.values()
    )


def listed_runs(given: Sequence[Run] | Mapping[str, Run]) -> list[pa.Table]:
    """Each run of a list, or of a dictionary name -> run in its order.

    Raises:
        InputError: one of them is not a run, or there is one run where several are expected.
    """
    if isinstance(given, Mapping) and not is_one_run(given):
        return list(named_runs(given).values())
    if isinstance(given, Mapping | str | Path) or is_table(given):
        raise InputError("runs: found one run; expected several: put them in a list")
    if not isinstance(given, Iterable):
        raise InputError(f"runs: expected a list of runs; found {given!r}")
    return [run_of(run, f"run {number}") for number, run in enumerate(given, start=1)]


def table_of_scores(given: Mapping[Any, Any], name: str) -> pa.Table:
    """A dictionary query id -> passage id -> score as a table with these three columns.

    Raises:
        InputError: values that are not ids or numbers; the first ten.
    """
    problems, queries, passages, values = Problems(), list[str](), list[str](), list[float]()
    for query, scores in given.items():
        if not isinstance(scores, Mapping):
            problems.add(f"{name}: query {query!r}: expected a dictionary passage id -> score")
            continue
        for passage, score in scores.items():
            try:
                queries.append(id_of(query, "query id"))
                passages.append(id_of(passage, "passage id"))
                values.append(float(score))
            except (TypeError, ValueError, OverflowError) as error:
                problems.add(f"{name}: query {query!r}, passage {passage!r}: {error}")
    problems.raise_if_any()
    columns = {"query_id": queries, "passage_id": passages, "score": values}
    types = [("query_id", pa.string()), ("passage_id", pa.string()), ("score", pa.float64())]
    return pa.table(columns, schema=pa.schema(types))
