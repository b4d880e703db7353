"""Run files read as `schema.RUN_FILE`: ids as strings, best first, ranks from 1."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.columns import Codes, decode, encode, places
from raypipe.evaluation.lines import TEXT_FORMATS, Lines, read_lines, sniff
from raypipe.evaluation.parquet import is_parquet, read_parquet
from raypipe.evaluation.refusals import refuse, warn

FORMATS = (*TEXT_FORMATS, "parquet")


def read_run(path: str | Path, *, form: str | None = None) -> pa.Table:
    """The run, `schema.RUN_FILE`: queries in order of first appearance, best first within each.

    What decides the order, and the score where the file has none:

    - trec: the score as float32, descending, then the passage id, descending, as trec_eval has
      it; the rank column is ignored, with a warning where it says something else.
    - msmarco: the rank; gaps are closed, with a warning; score 1/rank.
    - top1000: unordered candidates; the order of the file stands in for a rank; score 1/rank.
    - parquet (query_id, passage_id, score[, rank]): the rank if there is one, else as trec.

    Args:
        path: plain, .gz, .bz2 or .zst, told by its content.
        form: one of `FORMATS`; None tells it by the content.

    Raises:
        InputError: a file that is no such run; scores that are not finite in float32; a passage
            twice for one query, or two passages at one rank; the first ten with line numbers.
    """
    path = Path(path)
    if form is not None and form not in FORMATS:
        raise InputError(f"{path}: format: expected one of {', '.join(FORMATS)}; found {form!r}")
    if form is None:
        form = "parquet" if is_parquet(path) else sniff(path)
    lines = read_parquet(path) if form == "parquet" else read_lines(path, form)
    queries, passages = encode(lines.query_id), encode(lines.passage_id)
    scores = _float32(lines)
    refuse(path, lines, queries, passages, scores, form)
    best = _best_first(form, lines, queries, passages, scores)
    if lines.rank is not None:
        warn(path, form, queries, best, lines.rank)
    rank = places(queries.codes[best])
    score = 1 / rank if scores is None else scores[best]
    columns = [
        decode(queries, best),
        decode(passages, best),
        rank.astype(np.int32),
        score.astype(np.float32),
    ]
    return pa.table(columns, schema=schema.RUN_FILE)


def _best_first(
    form: str,
    lines: Lines,
    queries: Codes,
    passages: Codes,
    scores: NDArray[np.float32] | None,
) -> NDArray[np.int64]:
    """Positions of the lines in the run's order."""
    if form in ("msmarco", "parquet") and lines.rank is not None:
        return np.lexsort((lines.rank, queries.codes))
    if scores is None:
        return np.argsort(queries.codes, kind="stable")
    places_by_name = np.empty(len(passages.names), dtype=np.int64)
    places_by_name[pc.sort_indices(passages.names).to_numpy()] = np.arange(len(passages.names))
    return np.lexsort((-places_by_name[passages.codes], -scores, queries.codes))


def _float32(lines: Lines) -> NDArray[np.float32] | None:
    """Scores as trec_eval holds them; what is too large for float32 becomes infinite."""
    if lines.score is None:
        return None
    with np.errstate(over="ignore"):
        return lines.score.astype(np.float32)
