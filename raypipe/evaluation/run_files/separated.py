"""Reads runs as CSV: a header names the columns, as in PyTerrier's and pandas' files."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from raypipe import foreign
from raypipe.errors import InputError
from raypipe.evaluation.run_files.fields import Block, Problems, narrowed
from raypipe.evaluation.run_files.files import line_blocks

_BLANK_LINES = re.compile(rb"\A(?:[ \t\r\f\v]*\n)+")
READ_BYTES = 1 << 20
"""Arrow reads ahead: with blocks of 4 MiB, or on several threads, it holds half as much again."""
_TYPES = {
    "query_id": pa.string(),
    "passage_id": pa.string(),
    "rank": pa.float64(),
    "score": pa.float64(),
}


def header_of(path: Path, line: bytes) -> foreign.Header | None:
    """What the file's first line says of its columns; None if it names none of a run's ids.

    Raises:
        InputError: it has the ids, but no score and no rank, or a column twice; or it is a header
            of judgements.
    """
    header = foreign.header_of(line, foreign.RUN, "query_id", "passage_id")
    if header is None or header.separator == " ":
        return None
    names = header.names
    if [name.strip().lower() for name in names] == ["query-id", "corpus-id", "score"]:
        raise InputError(f"{path}: these are qrels (BEIR's header); expected a run")
    if not header.columns.keys() & {"score", "rank"}:
        found = ", ".join(names)
        raise InputError(f"{path}: expected a column score or rank, found {found}; is this a run?")
    twice = [name for name in header.columns.values() if names.count(name) > 1]
    if twice:
        raise InputError(
            f"{path}: expected each column once, found {', '.join(twice)} more than once; "
            "keep the column that the run is ranked by"
        )
    return header


def csv_blocks(path: Path, header: foreign.Header, problems: Problems) -> Iterator[Block]:
    """Query ids, passage ids, ranks, scores and line numbers of the file, some lines at a time.

    A number counts lines from the header, line 1; with line breaks inside of quotes, records.

    Raises:
        InputError: a record with other columns than the header, or a value that is no number.
    """
    types = {header.columns[own]: _TYPES[own] for own in _TYPES if own in header.columns}
    first = 2
    try:
        reader = pacsv.open_csv(
            io.BufferedReader(_Content(path)),
            read_options=pacsv.ReadOptions(block_size=READ_BYTES, use_threads=False),
            parse_options=pacsv.ParseOptions(delimiter=header.separator, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                strings_can_be_null=False,
                null_values=[""],
            ),
        )
        for batch in reader:
            yield _block(batch, header, first, problems)
            first += batch.num_rows
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not the CSV that its header promises: {error}") from error


def _block(batch: pa.RecordBatch, header: foreign.Header, first: int, problems: Problems) -> Block:
    numbers = np.arange(first, first + batch.num_rows)
    ids = [batch[header.columns[own]] for own in ("query_id", "passage_id")]
    rank, score = (
        _values(batch[header.columns[own]], own, numbers, problems)
        if own in header.columns
        else None
        for own in ("rank", "score")
    )
    return ids[0], ids[1], rank, score, numbers


def _values(
    column: pa.Array, name: str, numbers: NDArray[np.int64], problems: Problems
) -> NDArray[np.float32]:
    for at in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)):
        problems.add(int(numbers[at]), f"{name}: expected a number; found none")
    return narrowed(column.to_numpy(zero_copy_only=False))


def _from_header(path: Path) -> Iterator[bytes]:
    """The file's lines without the blank ones above its header, which Arrow would read as one."""
    begun = False
    for block in line_blocks(path):
        if not begun:
            block = _BLANK_LINES.sub(b"", block)
            begun = bool(block)
        if block:
            yield block


class _Content(io.RawIOBase):
    """The file's decompressed bytes from its header on, without a byte order mark."""

    def __init__(self, path: Path) -> None:
        self._blocks, self._held = _from_header(path), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._held:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._held = memoryview(block)
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count
