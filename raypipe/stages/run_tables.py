"""Conversions between arrays of a ranking and the tables of run stores."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.ranking.order import order_table, ranks
from raypipe.stages.ids import ids_of_rows
from raypipe.storage.payloads import read_table
from raypipe.storage.store import Stored


def run_table(
    query_rows: NDArray[np.int32],
    passage_rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    *,
    scored_by: str,
) -> pa.Table:
    """A table of schema.RUN from lines in order: by query row, best first."""
    names = pa.repeat(pa.scalar(scored_by, pa.string()), len(query_rows))
    columns = [query_rows.astype(np.int32), passage_rows, ranks(query_rows), scores, names]
    return pa.table(columns, schema=schema.RUN)


def dense_table(
    first_query: int, rows: NDArray[np.int64], scores: NDArray[np.float32], *, scored_by: str
) -> pa.Table:
    """A run from [Q, K] arrays of consecutive queries; places with row -1 are empty."""
    filled = rows >= 0
    query_rows = np.repeat(np.arange(first_query, first_query + len(rows)), filled.sum(axis=1))
    return run_table(query_rows.astype(np.int32), rows[filled], scores[filled], scored_by=scored_by)


def read_queries_of_run(
    stored: Stored, start: int, stop: int, columns: pa.Schema = schema.RUN
) -> pa.Table:
    """A run's lines of query rows [start, stop), in order, from every shard that holds some.

    This also works for any table whose shards are ranges of queries; `columns` is its schema.
    """
    parts = []
    for record, _, _ in stored.overlapping(start, stop):
        table = read_table(stored.path(record), columns)
        rows = table["query_row"]
        parts.append(table.filter(pc.and_(pc.greater_equal(rows, start), pc.less(rows, stop))))
    return pa.concat_tables(parts) if parts else columns.empty_table()


def best(table: pa.Table, *, depth: int, scored_by: str) -> pa.Table:
    """The first `depth` of each query from parts of a run with disjoint passages."""
    query_rows = table["query_row"].to_numpy()
    rows, scores = table["passage_row"].to_numpy(), table["score"].to_numpy()
    by_order = order_table(query_rows, scores, rows)
    first = by_order[ranks(query_rows[by_order]) <= depth]
    return run_table(query_rows[first], rows[first], scores[first], scored_by=scored_by)


def with_ids(run: pa.Table, queries: pa.Table, collection: Stored) -> pa.Table:
    """A run (schema.RUN) as schema.RUN_FILE: with original ids in place of rows."""
    passage_ids = pa.array(ids_of_rows(collection, run["passage_row"].to_numpy()), pa.string())
    query_ids = queries["query_id"].take(run["query_row"])
    columns = [query_ids, passage_ids, run["rank"], run["score"]]
    return pa.table(columns, schema=schema.RUN_FILE)
