"""Reads runs with named columns, Parquet or text below a header, as columns."""

import csv
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raypipe import foreign
from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import encode
from raypipe.evaluation.run_files.lines import (
    MAX_LINE_BYTES,
    Block,
    LineProblems,
    Lines,
    line_blocks,
    lines_of,
    narrowed,
    numbers_of,
    quoted,
    texts_of,
    without_comments,
)
from raypipe.regular import check_ratio, check_regular, reading_parquet

logger = logging.getLogger(__name__)
_IDS = ("query_id", "passage_id")
_NAMES = {name for names in foreign.RUN.values() for name in names}
RECORDS_AT_ONCE = 100_000
_ROW_BYTES = 16
"""Two codes, a rank and a score: what a row takes without its ids' characters."""


def is_parquet(path: Path) -> bool:
    """Whether the file begins like a Parquet file."""
    check_regular(path, "a run file")
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); expected a run file") from error


def header_in(line: bytes) -> foreign.Header | None:
    """The header of a run, if the line names the columns of queries and of passages.

    With blanks between, every word must be a name of a column; else a text might pass for one.
    """
    header = foreign.header_of(line, foreign.RUN, *_IDS)
    if header is not None and header.separator == " ":
        strangers = {name.lower() for name in header.names} - _NAMES
        return None if strangers else header
    return header


def read_columns(path: Path) -> list[str]:
    """Our names of the columns of a file with named columns: some of `foreign.RUN`.

    Raises:
        InputError: it has no named columns, or one of them twice.
    """
    if is_parquet(path):
        with reading_parquet(path):
            names = pq.read_schema(path).names
        return [*_columns(path, names)]
    _, header = next(table_records(path, LineProblems(path)))
    return [*_columns(path, header)]


def read_table(path: Path) -> Lines:
    """The columns of a text whose first line names them, read as by `csv`.

    Raises:
        InputError: another number of columns in a line, quotes without an end, bytes that are not
            UTF-8, ranks or scores that are no numbers; the first ten in full.
    """
    problems = LineProblems(path)
    records = table_records(path, problems)
    _, names = next(records)
    columns = _columns(path, names)
    others = [name for name in names if name not in columns.values()]
    if others:
        names_shown = ", ".join(name or "one without a name" for name in others)
        logger.info("%s: columns that are not read: %s", path, names_shown)
    blocks = list[Block]()
    while part := list(islice(records, RECORDS_AT_ONCE)):
        block = _block(part, {own: names.index(name) for own, name in columns.items()}, problems)
        if block is not None:
            blocks.append(block)
    problems.refuse()
    if not blocks:
        raise InputError(f"{path}: no lines below the header; expected a run")
    return lines_of(blocks)


def _block(
    rows: Sequence[tuple[int, list[str]]], at: dict[str, int], problems: LineProblems
) -> Block | None:
    """The columns at these positions; None if one of them has a problem."""
    numbers = np.array([number for number, _ in rows], np.int64)
    cells = {own: [record[place].encode() for _, record in rows] for own, place in at.items()}
    rank, score = (
        numbers_of(cells[own], numbers, problems, own) if own in cells else None
        for own in ("rank", "score")
    )
    queries, passages = (texts_of(cells[own], numbers, problems) for own in _IDS)
    return queries, passages, rank, score, numbers


def table_records(
    path: Path,
    problems: LineProblems,
    header_in: Callable[[bytes], foreign.Header | None] = header_in,
) -> Iterator[tuple[int, list[str]]]:
    """The header's names, then each record with as many columns, with the number of its last line.

    Args:
        path: a text whose first line that is neither blank nor a comment is a header.
        problems: receives the other records.
        header_in: the header in that line.

    Raises:
        InputError: a quote without its end, with the problems before.
    """
    lines = _Numbered(path, problems)
    header = header_in(next(line for line in lines.raw if without_comments(line).strip()))
    assert header is not None
    yield lines.number, header.names
    csv.field_size_limit(MAX_LINE_BYTES)  # otherwise a text of 131,072 characters is refused
    blanks = header.separator == " "
    try:
        for record in (
            (line.split() for line in lines)
            if blanks
            else csv.reader(lines, delimiter=header.separator, strict=True)
        ):
            if len(record) == len(header.names):
                yield lines.number, record
            elif record:
                message = f"expected the {len(header.names)} columns {', '.join(header.names)}"
                found = f"found {len(record)} in {quoted(lines.line)}"
                problems.add(lines.number, f"{message}; {found}")
    except csv.Error as error:
        problems.add(lines.number, f"not CSV: {error}; a quote within quotes is written twice")
        problems.refuse()


class _Numbered:
    """The lines of a file as texts; `line` and `number` are those of the last one given."""

    def __init__(self, path: Path, problems: LineProblems) -> None:
        """Nothing is read yet; a line that is not UTF-8 is noted, and given with U+FFFD."""
        self._problems = problems
        self.number, self.line = 0, b""
        self.raw = self._each(path)

    def __iter__(self) -> Iterator[str]:
        """Each line, with its end."""
        for line in self.raw:
            try:
                yield line.decode() + "\n"
            except UnicodeDecodeError:
                self._problems.add(self.number, f"{quoted(line)} is not UTF-8")
                yield line.decode(errors="replace") + "\n"

    def _each(self, path: Path) -> Iterator[bytes]:
        for block in line_blocks(path):
            for self.line in block.removesuffix(b"\n").split(b"\n"):
                self.number += 1
                yield self.line


def read_parquet(path: Path) -> Lines:
    """The columns of a Parquet run; integer ids become their decimal strings.

    Equal ids are held once, so that a small file cannot ask for much memory.

    Raises:
        InputError: other columns or types, damage, or it unpacks to too much (`check_ratio`).
    """
    num_bytes = path.stat().st_size
    with reading_parquet(path):
        file_schema = pq.read_schema(path)
        columns = _columns(path, file_schema.names)
        ids = [columns[own] for own in _IDS]
        texts = [name for name in ids if foreign.is_text(file_schema.field(name).type)]
        file = pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts)
        check_ratio(path, num_bytes, file.metadata.num_rows * _ROW_BYTES)
        table = file.read(columns=list(columns.values()))
        table.validate(full=True)
    for name in ids:
        check_ratio(path, num_bytes, sum(map(foreign.num_characters, table[name].chunks)))
    if not len(table):
        raise InputError(f"{path}: no rows; expected a run (parquet)")
    return table_lines(path, table, first=1)


def table_lines(path: Path, table: pa.Table, *, first: int = 0) -> Lines:
    """A table's columns, read like those of a Parquet run; `path` is its name in messages.

    Rows count from `first` there: from 1 in a file, as in every other, from 0 in Python.
    """
    columns = _columns(path, table.column_names)
    return Lines(
        encode(_ids(path, table, columns["query_id"], first)),
        encode(_ids(path, table, columns["passage_id"], first)),
        _values(path, table, columns["rank"], first) if "rank" in columns else None,
        _values(path, table, columns["score"], first) if "score" in columns else None,
        np.arange(first, first + len(table)),
    )


def _columns(path: Path, names: Sequence[str]) -> dict[str, str]:
    """Our name of each of a run's columns -> the table's."""
    columns = foreign.columns_of(names, foreign.RUN)
    twice = sorted({name for name in columns.values() if list(names).count(name) > 1})
    if twice:
        raise InputError(
            f"{path}: expected each column once, found {', '.join(twice)} more than once; keep the "
            "column that the run is ranked by"
        )
    missing = {*_IDS} - columns.keys()
    if missing:
        raise InputError(
            f"{path}: expected columns query_id, passage_id, and score or rank; "
            f"missing {', '.join(sorted(missing))}; found {', '.join(sorted(names))} "
            f"({foreign.also(foreign.RUN, 'query_id', 'passage_id')})"
        )
    if foreign.has_beir_grades(names):
        raise InputError(
            f"{path}: these are qrels (BEIR's header); expected a run: name the passages' column "
            "passage_id if its scores are those of a run"
        )
    return columns


def _ids(path: Path, table: pa.Table, name: str, first: int) -> pa.ChunkedArray:
    try:
        foreign.check_no_nulls(name, table[name], first=first)
        return foreign.as_text(name, table[name])
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _values(path: Path, table: pa.Table, name: str, first: int) -> NDArray[np.float32]:
    try:
        numbers = foreign.as_numbers(name, table[name])
        foreign.check_no_nulls(name, numbers, first=first)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return narrowed(numbers.to_numpy())
