"""Scores of candidates given as a table, a dictionary or an array, turned into keyed scores."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.api.given.runs import table_of_scores
from raypipe.api.given.tables import column_of, is_table, table_of
from raypipe.errors import InputError
from raypipe.ranking.by_id import SHOWN
from raypipe.ranking.candidates import Keys, missing

Scores: TypeAlias = pa.Table | Mapping[str, Mapping[str, float]] | NDArray[np.float32]
"""The table that `score` returned for a run, a dictionary query id -> passage id -> score, or an
array with one score per line of the run."""


class Held(NamedTuple):
    """Scores by their keys."""

    keys: Keys
    values: NDArray[np.float32]
    of_pairs: bool
    """Whether they are scores of pairs, from a duoBERT model."""


def held_scores(given: Scores, run: pa.Table, queries: pa.Array, passages: pa.Array) -> Held:
    """The scores by the rows of their ids; scores of other ids are left out.

    Args:
        given: see `Scores`.
        run: schema.RUN_FILE; an array has one score for each of its lines.
        queries: the id of each query row.
        passages: the id of each passage row.

    Raises:
        InputError: another number of scores than lines, missing columns, or a candidate twice.
    """
    table = _table(given, run)
    of_pairs = "other_id" in table.column_names
    names = ["query_id", "passage_id", *(["other_id"] if of_pairs else [])]
    places = [
        pc.index_in(column_of(table, name, "scores").cast(pa.string()), value_set=ids)
        for name, ids in zip(names, (queries, passages, passages), strict=False)
    ]
    kept = np.logical_and.reduce([place.is_valid().to_numpy() for place in places])
    rows = [place.fill_null(-1).to_numpy().astype(np.int64)[kept] for place in places]
    keys = (rows[0], rows[1], rows[2] if of_pairs else np.full(len(rows[0]), -1, np.int64))
    _refuse_repeats(keys, queries, passages)
    column = column_of(table, "probability" if of_pairs else "score", "scores")
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"scores: expected numbers; found {column.type}")
    return Held(keys, column.to_numpy().astype(np.float32)[kept], of_pairs)


def refuse_missing(wanted: Keys, held: Held, queries: pa.Array, passages: pa.Array) -> None:
    """Returns nothing if every candidate wanted has a score.

    Raises:
        InputError: some have none, with their number and the first ten.
    """
    lacking = np.flatnonzero(missing(wanted, held.keys))
    if len(lacking):
        raise InputError(
            f"scores: {len(lacking)} of {len(wanted[0])} candidates have no score, first "
            f"{_shown(wanted, lacking, queries, passages)}; score them, or lower k to the "
            "candidates that were scored: a missing score is never made up"
        )


def _table(given: Any, run: pa.Table) -> pa.Table:
    if isinstance(given, np.ndarray):
        if given.shape != (len(run),) or given.dtype.kind not in "fiu":
            raise InputError(
                f"scores: found {given.dtype} {list(given.shape)}; expected one number per line of "
                f"the run, [{len(run)}]"
            )
        return run.select(["query_id", "passage_id"]).append_column("score", [given])
    if isinstance(given, Mapping):
        return table_of_scores(given, "scores")
    if not is_table(given):
        raise InputError(
            f"scores: found {type(given).__name__}; expected what `score` returned of a run, a "
            "dictionary query id -> passage id -> score, or an array"
        )
    return table_of(given, "scores")


def _refuse_repeats(keys: Keys, queries: pa.Array, passages: pa.Array) -> None:
    order = np.lexsort(keys[::-1])
    same = np.logical_and.reduce([part[order][1:] == part[order][:-1] for part in keys])
    if same.any():
        shown = _shown(keys, order[1:][same], queries, passages)
        raise InputError(f"scores: {int(same.sum())} candidates repeated, first {shown}; keep one")


def _shown(keys: Keys, at: NDArray[np.int64], queries: pa.Array, passages: pa.Array) -> str:
    query_rows, rows, _ = keys
    names = [(queries[int(query_rows[n])], passages[int(rows[n])]) for n in at[:SHOWN]]
    return ", ".join(f"({query}, {passage})" for query, passage in names)
