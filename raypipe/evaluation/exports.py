"""Writes runs for other tools: TREC and MS MARCO files, with the same bytes every time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import SHOWN, check_run, encode, unprintable
from raypipe.storage.compression import replacing_compressed

MSMARCO_DEPTH = 1000
"""The official script keeps 1000 places per query and fails on a higher rank."""
NOTHING, TAB, BLANK, Q0, END = (
    pa.scalar(text, pa.large_string()) for text in ("", "\t", " ", " Q0 ", "\n")
)
"""Text between the fields of a line, and behind the last one."""
Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


def write_trec(table: pa.Table, path: str | Path, *, tag: str) -> None:
    """Write `query Q0 passage rank score tag` lines; the file is replaced as a whole.

    Scores are lowered until they strictly decrease in float32 within each query, and printed with
    nine digits. So trec_eval, which sorts by float32, sees exactly this ranking.

    Args:
        table: `schema.RUN_FILE`, each query's lines together in rank order.
        path: .gz, .bz2 and .zst are compressed.
        tag: the system's name, one word.

    Raises:
        InputError: no such run; ids or a tag with white space or control characters; a score
            that is not finite.
    """
    _check(table, tag)
    queries = encode(table["query_id"]).codes
    scores = lowered(table["score"].to_numpy(), queries)
    columns = table.select(["query_id", "passage_id", "rank"]).append_column("score", [scores])
    with replacing_compressed(Path(path)) as out:
        for query, passage, rank, score in _rows(columns):
            printed = pa.array([f"{s:.9g}" for s in score.to_pylist()], pa.large_string())
            name = pa.scalar(f" {tag}\n", pa.large_string())
            out.write(_lines(query, Q0, passage, BLANK, rank, BLANK, printed, name))


def write_msmarco(table: pa.Table, path: str | Path) -> None:
    """Write `query TAB passage TAB rank` lines down to rank 1000; the file is replaced as a whole.

    Args:
        table: `schema.RUN_FILE`, each query's lines together in rank order.
        path: .gz, .bz2 and .zst are compressed.

    Raises:
        InputError: no such run; ids with white space or control characters.
    """
    _check(table)
    columns = table.select(["query_id", "passage_id", "rank"])
    columns = columns.filter(pc.less_equal(columns["rank"], MSMARCO_DEPTH))
    with replacing_compressed(Path(path)) as out:
        for query, passage, rank in _rows(columns):
            out.write(_lines(query, TAB, passage, TAB, rank, END))


def _check(table: pa.Table, tag: str = "tag") -> None:
    check_run(table)
    problems = []
    for name in ("query_id", "passage_id"):
        bad = unprintable(encode(table[name]).names)
        if bad:
            shown = ", ".join(map(repr, bad[:SHOWN]))
            problems.append(
                f"run: {len(bad)} {name}s are empty or hold white space or control characters "
                f"and cannot be in a run file: {shown}"
            )
    if unprintable(pa.array([tag])):
        problems.append(f"run: tag: expected one word; found {tag!r}")
    if problems:
        raise InputError(problems)


def _rows(table: pa.Table) -> Iterator[list[pa.Array]]:
    """The table's columns, a hundred thousand rows at a time; all but the score as text."""
    for batch in table.to_batches(max_chunksize=100_000):
        yield [
            batch[name] if name == "score" else batch[name].cast(pa.large_string())
            for name in batch.schema.names
        ]


def _lines(*fields: pa.Array | pa.Scalar) -> memoryview:
    """The bytes of one line a row: the fields without anything between; a scalar is every row's.

    Arrow keeps the joined texts one after another: that is the file.
    """
    joined = pc.binary_join_element_wise(*fields, NOTHING)
    if not len(joined):
        return memoryview(b"")
    _, ends, texts = joined.buffers()
    return memoryview(texts)[: int(np.frombuffer(ends, np.int64)[len(joined)])]


def lowered(scores: Float32, groups: NDArray[np.integer] | None = None) -> Float32:
    """Strictly decreasing scores, float32 [N], each changed as little as possible.

    From the top down, a score that is not below the one above is lowered to the next float32 below
    that one. trec_eval compares float32, so a smaller step would be a tie again. The order of the
    lines is the ranking and does not change: if another stage scored the tail below a reranked
    head, the tail is lowered as far as necessary.

    Args:
        scores: float32 [N], best first; of several queries if `groups` is given.
        groups: one value per line, with the lines of a query together; None for one query.

    Raises:
        InputError: a score is NaN or infinite, or no lower float32 is left.
    """
    if not np.isfinite(scores).all():
        raise InputError("scores: NaN or infinite; expected finite float32")
    if groups is None:
        groups = np.zeros(len(scores), dtype=np.int64)
    # On the number line of float32s (see _keys) "below by at least one step" is y[i] <= y[i-1] - 1,
    # so y[i] + i is a running minimum. A group's offset is larger than any key, so the minimum
    # starts again at each query.
    query = np.concatenate([[0], np.cumsum(groups[1:] != groups[:-1])])[: len(groups)]
    slope = np.arange(len(groups)) - query * (1 << 34)
    keys = np.minimum.accumulate(_keys(scores) + slope) - slope
    if len(keys) and keys.min() < -_LARGEST_KEY:
        raise InputError("scores: no float32 is left below the smallest; expected scores > -3.4e38")
    return _scores(keys)


_LARGEST_KEY = int(np.float32(np.finfo(np.float32).max).view(np.int32))


def _keys(scores: Float32) -> Int64:
    """Each score's position among all float32 values; 0 for both zeros, 1 for the next float."""
    bits = np.ascontiguousarray(scores, dtype=np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _scores(keys: Int64) -> Float32:
    """The inverse of `_keys`; 0 becomes +0.0."""
    bits = np.where(keys < 0, -keys - (1 << 31), keys)
    return bits.astype(np.int32).view(np.float32)
