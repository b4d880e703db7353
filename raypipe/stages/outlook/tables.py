"""The bytes of tables that do not exist yet: made-up ones of the same shape are written.

The columns of runs, candidates and scores are compressed row numbers, ranks and float32 scores.
How many bytes a line takes depends on the number of lines of a query and of passages in the
collection, and is best asked of the writer itself.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.stages.outlook.outlook import ExpectedRun, Float64, Int64
from raypipe.storage.payloads import write_table

MADE_UP_LINES = 200_000
"""Lines of a made-up table at most: a second's work."""
TOUCHED = 0.3
"""A query's best passages are drawn from this share of the collection, but from thrice as many as
they are at least: some passages are found often."""


def table_bytes(table: pa.Table) -> int:
    """The bytes of a payload with this table."""
    with tempfile.TemporaryDirectory(prefix="raypipe-forecast-") as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, table.schema, [table])
        return path.stat().st_size


def run_bytes(run: ExpectedRun, scored_by: str, *, in_both: float | None = None) -> float:
    """The bytes of a run with these lines.

    `in_both` says that its scores are made of ranks, as those of reciprocal rank fusion, so that
    few of them differ: it is the share of the lines with a rank in two runs.
    """
    lines = _few(run.lines)
    rows = _rows(lines, run.num_passages)
    random = np.random.default_rng(1)
    ranks = [np.arange(1, n + 1, dtype=np.int32) for n in lines]
    scores = [_scores(n, random, in_both) for n in lines]
    if not sum(lines):
        return 0.0
    columns = [
        np.repeat(np.arange(len(lines), dtype=np.int32), lines),
        np.concatenate(rows),
        np.concatenate(ranks),
        np.concatenate(scores),
        [scored_by] * sum(lines),
    ]
    made = pa.table(columns, schema=schema.RUN)
    return table_bytes(made) * run.total(run.lines) / len(made)


def listed_bytes(
    run: ExpectedRun, scored_by: str, rows: Int64, scores: NDArray[np.float32]
) -> float:
    """The bytes of a run whose lists look like these: both [q, n], a row of -1 for no line."""
    query, place = np.nonzero(rows >= 0)
    query, place = query[:MADE_UP_LINES], place[:MADE_UP_LINES]
    if not len(query):
        return 0.0
    columns = [
        query.astype(np.int32),
        rows[query, place],
        (place + 1).astype(np.int32),
        scores[query, place],
        [scored_by] * len(query),
    ]
    return table_bytes(pa.table(columns, schema=schema.RUN)) * run.total(run.lines) / len(query)


def _scores(number: int, random: np.random.Generator, in_both: float | None) -> np.ndarray:
    """Scores of a query's lines, float32 [number], the largest first."""
    if in_both is None:
        return -np.sort(-random.uniform(5.0, 20.0, number)).astype(np.float32)
    own, other = np.arange(1, number + 1), random.integers(1, number + 1, number)
    more = np.where(random.random(number) < in_both, 1 / (60 + other), 0.0)
    return -np.sort(-(1 / (60 + own) + more)).astype(np.float32)


def keys_bytes(per_query: Float64, total: float, num_passages: int, *, pairs: bool) -> float:
    """The bytes of candidates, sorted, of queries with so many first candidates each.

    `total` is the number of candidates; with `pairs` they are ordered pairs.
    """
    return _keys(per_query, total, num_passages, pairs, scored=False)


def scores_bytes(per_query: Float64, total: float, num_passages: int, *, pairs: bool) -> float:
    """The same with their scores."""
    return _keys(per_query, total, num_passages, pairs, scored=True)


def _keys(
    per_query: Float64, total: float, num_passages: int, pairs: bool, *, scored: bool
) -> float:
    queries, first, second, num_made = [], [], [], 0
    for query, rows in enumerate(_rows(_few(per_query), num_passages)):
        rows = np.sort(rows)
        left = np.repeat(rows, len(rows)) if pairs else rows
        right = np.tile(rows, len(rows)) if pairs else np.full(len(rows), -1, np.int64)
        kept = left != right
        queries.append(np.full(int(kept.sum()), query, np.int32))
        first.append(left[kept])
        second.append(right[kept])
        num_made += len(first[-1])
        if num_made > MADE_UP_LINES:
            break
    if not num_made:
        return 0.0
    columns = [np.concatenate(part) for part in (queries, first, second)]
    wanted = schema.CANDIDATES
    if scored:
        wanted = schema.SCORES
        columns.append(np.random.default_rng(2).uniform(-9.0, 0.0, num_made).astype(np.float32))
    return table_bytes(pa.table(columns, schema=wanted)) * total / num_made


def _few(lines: Float64) -> list[int]:
    """Whole numbers of lines of the first queries, so that a made-up table stays small."""
    before = np.cumsum(lines) - lines
    found: list[int] = np.rint(lines[before <= MADE_UP_LINES]).astype(np.int64).tolist()
    return found


def _rows(lines: list[int], num_passages: int) -> list[np.ndarray]:
    """Different passages for each query."""
    random = np.random.default_rng(0)
    most = max(lines, default=0)
    among = max(most, min(num_passages, max(3 * most, round(TOUCHED * num_passages))), 1)
    return [random.choice(among, n, replace=False).astype(np.int64) for n in lines]
