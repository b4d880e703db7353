"""A note on a run file's equal scores, whose order each tool chooses itself."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.evaluation.run_files.columns import encode

logger = logging.getLogger(__name__)


class Ties(NamedTuple):
    """Lines that have the score of another line of their query."""

    num_lines: int
    num_queries: int
    by_id: bool
    """Whether all of them stand in trec_eval's order, by passage id descending."""


def ties_of(run: pa.Table) -> Ties:
    """The ties of whole queries of a run, schema.RUN_FILE."""
    queries = encode(run["query_id"]).codes
    scores, passages = run["score"].to_numpy(), run["passage_id"]
    order = np.lexsort((-scores, queries))  # which keeps the run's order among equal scores
    same = (np.diff(queries[order]) == 0) & (np.diff(scores[order]) == 0)
    above, below = order[:-1][same], order[1:][same]
    lines = np.union1d(above, below)
    by_id = pc.all(pc.greater(passages.take(above), passages.take(below)), min_count=0).as_py()
    return Ties(len(lines), len(np.unique(queries[lines])), by_id)


def note_ties(path: str | Path, parts: Sequence[Ties]) -> None:
    """Log how many lines of a file are tied, and in which order they were taken.

    raypipe's own TREC files give no note, since their ties are lowered; nor do files of ranks.

    Args:
        path: the name of the file in the note.
        parts: the ties of its parts, each of whole queries.
    """
    num_lines = sum(part.num_lines for part in parts)
    if not num_lines:
        return
    by_id = all(part.by_id for part in parts)
    num_queries = sum(part.num_queries for part in parts)
    logger.warning(
        "%s: %s lines of %s have the score of another line of the same query; they are taken %s; "
        "other tools may order them otherwise",
        path,
        f"{num_lines:,}",
        "1 query" if num_queries == 1 else f"{num_queries:,} queries",
        "by passage id descending, as trec_eval does" if by_id else "in the file's order",
    )
