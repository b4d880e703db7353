"""Converts runs with original ids into runs with rows, and back."""

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.errors import InputError, some
from raypipe.ranking.fuse import fuse_tables

logger = logging.getLogger(__name__)
SHOWN = 10


def with_rows(run: pa.Table, queries: pa.Array, passages: pa.Array, *, name: str) -> pa.Table:
    """The run (schema.RUN_FILE) as schema.RUN, by query row and rank.

    Args:
        run: `schema.RUN_FILE`.
        queries: the id of each query row, each once.
        passages: the id of each passage row, each once.
        name: the run's name in messages; also `scored_by` of every line.

    Raises:
        InputError: ids that are not among these, with the first ten.
    """
    sides = [("query", queries, pa.int32()), ("passage", passages, pa.int64())]
    rows, problems = [], []
    for kind, ids, width in sides:
        places = pc.index_in(run[f"{kind}_id"], value_set=ids)
        if places.null_count:
            problems.append(_unknown(name, kind, run[f"{kind}_id"].filter(places.is_null())))
        rows.append(places.cast(width))
    if problems:
        raise InputError(problems)
    query_rows, passage_rows = rows
    order = np.lexsort((run["rank"].to_numpy(), query_rows.to_numpy()))
    names = pa.repeat(pa.scalar(name, pa.string()), run.num_rows)
    columns = [query_rows, passage_rows, run["rank"], run["score"], names]
    return pa.table(columns, schema=schema.RUN).take(pa.array(order))


def with_ids(run: pa.Table, queries: pa.Array, passages: pa.Array) -> pa.Table:
    """The run (schema.RUN) as schema.RUN_FILE; the inverse of `with_rows`."""
    columns = [queries.take(run["query_row"]), passages.take(run["passage_row"])]
    return pa.table([*columns, run["rank"], run["score"]], schema=schema.RUN_FILE)


def first_seen(runs: Sequence[pa.Table]) -> pa.Array:
    """Every query id of the runs (schema.RUN_FILE), in order of first appearance."""
    return _distinct(runs, "query_id")


def ascending(runs: Sequence[pa.Table]) -> pa.Array:
    """Every passage id of the runs, ascending as strings; used as rows without a collection."""
    found = _distinct(runs, "passage_id")
    return found.take(pc.sort_indices(found))


def fuse_by_id(
    runs: Sequence[pa.Table],
    *,
    method: str | None,
    passages: pa.Array | None = None,
    weights: Sequence[float] | None = None,
    k: float | None = None,
    depth: int | None = None,
    names: Sequence[str] | None = None,
) -> pa.Table:
    """One run (schema.RUN_FILE) from several, or a cut one.

    The arguments and errors are those of `fuse_tables`. Queries that a run lacks are logged, and
    runs without a passage in common.

    `passages` are the collection's ids in row order, which decides ties; without them, ties are
    ordered by ascending passage id, as strings. `names` are those of the runs in messages.
    """
    queries = first_seen(runs)
    passages = ascending(runs) if passages is None else passages
    names = names or [f"run {number}" for number in range(1, len(runs) + 1)]
    tables = [
        with_rows(run, queries, passages, name=name) for run, name in zip(runs, names, strict=True)
    ]
    fused = fuse_tables(tables, method=method, scored_by="fused", weights=weights, k=k, depth=depth)
    _note_strangers(runs, names, queries)
    return with_ids(fused, queries, passages)


def _note_strangers(runs: Sequence[pa.Table], names: Sequence[str], queries: pa.Array) -> None:
    """Warn of runs that may be of another query set or collection than the others."""
    for run, name in zip(runs, names, strict=True):
        lacking = queries.filter(pc.invert(pc.is_in(queries, pc.unique(run["query_id"]))))
        if len(lacking):
            logger.warning(
                "%s: lacks %d of the %d queries, which the others alone rank: %s",
                name,
                len(lacking),
                len(queries),
                some(lacking.to_pylist()),
            )
    filled = [run for run in runs if len(run)]
    num_passages = sum(len(pc.unique(run["passage_id"])) for run in filled)
    if len(filled) > 1 and num_passages == len(_distinct(filled, "passage_id")):
        logger.warning(
            "%s: no passage is in two of the runs: are their ids of one collection?",
            ", ".join(names),
        )


def _distinct(runs: Sequence[pa.Table], column: str) -> pa.Array:
    chunks = [chunk for run in runs for chunk in run[column].chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string()))


def _unknown(name: str, kind: str, ids: pa.ChunkedArray) -> str:
    missing = sorted(set(ids.to_pylist()))
    shown = ", ".join(missing[:SHOWN])
    plural = "queries" if kind == "query" else "passages"
    return (
        f"{name}: {len(missing)} {kind} ids are not among the {plural} given, first {shown}; "
        f"give the {plural} that the run was made for"
    )
