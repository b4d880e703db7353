"""Reads run files as `schema.RUN_FILE`: ids as strings, best first, ranks from 1."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.evaluation.run_files.columns import decode, places
from raypipe.evaluation.run_files.lines import Lines, read_lines, sniff
from raypipe.evaluation.run_files.parquet import is_parquet, read_parquet
from raypipe.evaluation.run_files.refusals import contradicted, refuse, warn
from raypipe.vocabulary import BreakTies


def read_run(path: str | Path, *, break_ties: BreakTies = "id") -> pa.Table:
    """The run, `schema.RUN_FILE`: queries in order of first appearance, best first within each.

    What decides the order, and the score if the file has none:

    - trec: descending score as float32, then descending passage id, as in trec_eval; the rank
      column is ignored, with a warning if it contradicts this order.
    - msmarco: the rank; gaps are closed, with a warning; score 1/rank.
    - top1000: unordered candidates; the order of the file is used as rank; score 1/rank.
    - parquet, with a column for the query, the passage, and the score or the rank under any name of
      `raypipe.foreign`: the rank if there is one, otherwise as trec.

    Ranks begin at 1, or in every query at 0.

    Args:
        path: plain, .gz, .bz2 or .zst, recognised by its content.
        break_ties: id orders equal scores by passage id as above; rank keeps the file's order among
            them, that of its ranks or, without ranks, of its lines.

    Raises:
        InputError: a file that is not such a run; scores that are not finite in float32; a passage
            twice for one query, or two passages at one rank; the first ten with line numbers.
    """
    path = Path(path)
    form = "parquet" if is_parquet(path) else sniff(path)
    lines = read_parquet(path) if form == "parquet" else read_lines(path, form)
    return ranked(path, lines, form, break_ties)


def ranked(path: Path, lines: Lines, form: str, break_ties: BreakTies = "id") -> pa.Table:
    """The run of these lines, `schema.RUN_FILE`; order and errors are those of `read_run`.

    Args:
        path: the name of the lines in messages.
        lines: the lines of a file, or of a table in memory (`parquet.table_lines`).
        form: parquet, or one that `sniff` tells.
        break_ties: see `read_run`.
    """
    table, queries = ordered(path, lines, form, break_ties)
    warn(path, form, queries, break_ties)
    return table


def ordered(
    path: Path, lines: Lines, form: str, break_ties: BreakTies = "id"
) -> tuple[pa.Table, list[str]]:
    """The run of these lines, and the queries whose ranks contradict its order; see `ranked`."""
    lines = _from_one(form, lines)
    refuse(path, lines, form)
    best = _best_first(form, lines, break_ties)
    rank = places(lines.queries.codes[best]).astype(np.int32)
    score = (1 / rank).astype(np.float32) if lines.score is None else lines.score[best]
    columns = [decode(lines.queries, best), decode(lines.passages, best), rank, score]
    return pa.table(columns, schema=schema.RUN_FILE), contradicted(form, lines, best)


def _from_one(form: str, lines: Lines) -> Lines:
    """The lines with ranks from 1: PyTerrier counts from 0, and so has one 0 in every query."""
    rank = lines.rank
    if form == "trec" or rank is None or not (rank == 0).any():
        return lines
    zeros = np.bincount(lines.queries.codes[rank == 0], minlength=len(lines.queries.names))
    whole = np.isfinite(rank).all() and (rank >= 0).all() and (rank == np.floor(rank)).all()
    return lines._replace(rank=rank + 1) if whole and (zeros == 1).all() else lines


def _best_first(form: str, lines: Lines, break_ties: BreakTies) -> NDArray[np.int64]:
    """Positions of the lines in the run's order."""
    queries = lines.queries.codes
    if form != "trec" and lines.rank is not None:
        return np.lexsort((lines.rank, queries))
    if lines.score is None:
        return np.argsort(queries, kind="stable")
    if break_ties == "rank":
        own = lines.rank
        if own is None or not np.isfinite(own).all():
            return np.lexsort((-lines.score, queries))  # which keeps the order of the lines
        return np.lexsort((own, -lines.score, queries))
    descending = pc.sort_indices(lines.passages.names, sort_keys=[("", "descending")]).to_numpy()
    place = np.empty(len(descending), dtype=np.int32)
    place[descending] = np.arange(len(descending))
    return np.lexsort((place[lines.passages.codes], -lines.score, queries))
