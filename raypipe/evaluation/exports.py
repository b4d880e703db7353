"""Writes runs for other tools: TREC and MS MARCO files, with the same bytes every time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.errors import InputError
from raypipe.evaluation.lowered import lowered
from raypipe.evaluation.run_files.columns import SHOWN, check_run, encode, unprintable
from raypipe.evaluation.run_files.files import replacing_run

MSMARCO_DEPTH = 1000
"""The official script keeps 1000 places per query and fails on a higher rank."""


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
    ending = f" {tag}\n"
    with replacing_run(Path(path)) as out:
        for query, passage, rank, score in _rows(columns):
            lines = zip(query, passage, rank, score, strict=True)
            out.write("".join([f"{q} Q0 {p} {r} {s:.9g}{ending}" for q, p, r, s in lines]).encode())


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
    with replacing_run(Path(path)) as out:
        for query, passage, rank in _rows(columns):
            lines = zip(query, passage, rank, strict=True)
            out.write("".join([f"{q}\t{p}\t{r}\n" for q, p, r in lines]).encode())


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


def _rows(table: pa.Table) -> Iterator[list[list[Any]]]:
    """The table's columns as Python lists, a hundred thousand rows at a time."""
    for batch in table.to_batches(max_chunksize=100_000):
        yield [column.to_pylist() for column in batch.columns]
