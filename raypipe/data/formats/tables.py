"""Tables as collections: Parquet, CSV and plain lines; and small Parquet files as columns.

A CSV's header names the columns, and texts in quotes may have line breaks. Between tabs there are
no quotes, and a record is a line. In plain text each line is a passage, and its number in the file,
from 1, is its id. Columns have an id, a text and perhaps a title, under any name of the field.
"""

import csv
import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raypipe import foreign
from raypipe.data.files import find_files
from raypipe.data.formats.fields import checked_id, titled
from raypipe.data.records import BOM, MAX_LINE_BYTES, chunks, lines
from raypipe.data.split import LINES, Counted, RecordSplit, counted
from raypipe.errors import InputError
from raypipe.regular import check_ratio, check_regular, reading_parquet
from raypipe.storage.compression import open_binary

MAGIC = b"PAR1"


def is_parquet(path: Path) -> bool:
    """Whether the file begins like a Parquet file."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def read_columns(
    path: Path, aliases: Mapping[str, Sequence[str]], *, numbers: Sequence[str] = ()
) -> pa.Table:
    """The columns of `aliases` in order; those in `numbers` as they are, the others as strings.

    Raises:
        InputError: not readable as Parquet, a column that is missing or there twice, nulls,
            another type than text or whole numbers, or it unpacks to too much (`check_ratio`).
    """
    columns = parquet_columns(path, aliases, *aliases)
    with reading_parquet(path):
        names, schema = [*columns.values()], pq.read_schema(path)
        num_packed, num_rows = path.stat().st_size, pq.read_metadata(path).num_rows
        check_ratio(path, num_packed, num_rows * len(names) * VALUE_BYTES)
        texts = [name for name in names if foreign.is_text(schema.field(name).type)]
        table = pq.read_table(
            path,
            columns=names,
            read_dictionary=texts,  # equal texts are held once until they are counted
            page_checksum_verification=True,
        )
        table.validate(full=True)
    for name in names:
        check_ratio(path, num_packed, sum(map(foreign.num_characters, table[name].chunks)))
    arrays = {}
    for own, name in columns.items():
        column = table[name]
        if column.null_count:
            raise InputError(f"{path}: column {name}: {column.null_count:,} rows are null")
        arrays[own] = column if own in numbers else as_text(path, name, column)
    return pa.table(arrays)


def parquet_columns(
    path: Path, aliases: Mapping[str, Sequence[str]], *needed: str
) -> dict[str, str]:
    """Our name -> the file's, for each column of `aliases` that it has.

    Raises:
        InputError: not readable, a column that is needed is missing, or one is there twice.
    """
    with reading_parquet(path):
        names = pq.read_schema(path).names
    columns = foreign.columns_of(names, aliases)
    if missing := [own for own in needed if own not in columns]:
        raise InputError(
            f"{path}: expected columns {', '.join(needed)}; missing {', '.join(missing)}; found "
            f"{', '.join(names)} ({foreign.also(aliases, *missing)})"
        )
    if twice := [name for name in columns.values() if names.count(name) > 1]:
        raise InputError(f"{path}: expected each column once, found {', '.join(twice)} twice")
    return columns


def as_text(path: Path, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Texts, and whole numbers in decimal, as strings; a column of nulls alone has no type.

    Raises:
        InputError: another type.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    types = pa.types
    is_text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    if not (pa.types.is_integer(kind) or any(is_kind(kind) for is_kind in is_text)):
        raise InputError(f"{path}: column {name}: expected texts; found {column.type}")
    return column.cast(pa.string())


_Row = tuple[str, ...]
"""Id, title, headings and text."""
BATCH_ROWS = 1024
VALUE_BYTES = 8
"""Size of a number in memory, and the least of a text."""


NO_IDS = "; where there are no ids, `collection.id=file-row` makes them of file names and rows"


def parquet_files(inputs: Sequence[Path], *, own_ids: bool = True) -> list[Path]:
    """Each file named, and the *.parquet of each folder; their columns are read.

    Args:
        inputs: files and folders.
        own_ids: whether a file needs a column of ids.

    Raises:
        InputError: no file, or a file that is not Parquet or lacks a column.
    """
    files = find_files(inputs, patterns=[r".*\.parquet"], expected="*.parquet")
    problems = []
    for path in files:
        try:
            if not is_parquet(path):
                raise InputError(f"{path}: expected Parquet, found another content")
            _passage_columns(path, own_ids)
        except InputError as error:
            problems += [
                f"{problem}{NO_IDS}" if "missing passage_id" in problem else problem
                for problem in error.problems
            ]
    if problems:
        raise InputError(problems)
    return files


def _passage_columns(path: Path, own_ids: bool) -> dict[str, str]:
    """See `parquet_columns`; without `own_ids` no column is that of the ids."""
    needed = ("passage_id", "text") if own_ids else ("text",)
    columns = parquet_columns(path, foreign.PASSAGES, *needed)
    return {own: name for own, name in columns.items() if own_ids or own != "passage_id"}


def text_of_row(record: _Row) -> str:
    """The text, behind title and headings where there are such."""
    return titled(*record[1:-1], text=record[-1])


def parse_row(record: _Row) -> tuple[str, str]:
    """The id and the text, behind title and headings where there are such.

    Raises:
        ValueError: a bad id.
    """
    return checked_id(record[0]), text_of_row(record)


def _count_rows(stream: BinaryIO, name: str, every: int) -> Counted:
    """The rows, and the file's bytes in as many equal parts as there are stretches of rows.

    A row's bytes lie in several places. A changed file is found when the shard is read whose part
    has changed.
    """
    with reading_parquet(name), pq.ParquetFile(name) as file:
        num_rows = file.metadata.num_rows
    num_parts = -(-num_rows // every)
    if not num_parts:
        for _ in chunks(stream):
            pass
        return Counted(0, (), ())
    num_bytes = Path(name).stat().st_size
    bounds = [num_bytes * part // num_parts for part in range(num_parts + 1)]
    hashes = [hashlib.sha256() for _ in range(num_parts)]
    at = part = 0
    for block in chunks(stream):
        while block:
            taken = block[: bounds[part + 1] - at]
            hashes[part].update(taken)
            at, block = at + len(taken), block[len(taken) :]
            if at == bounds[part + 1] and part + 1 < num_parts:
                part += 1
    return Counted(num_rows, tuple(bounds[:-1]), tuple(each.hexdigest() for each in hashes))


def _row_records(
    stream: BinaryIO, *, name: str, at: int, first: int, skip: int, own_ids: bool = True
) -> Iterator[_Row]:
    """Rows from `first` + `skip` on; the row groups before are not read."""
    path, start = Path(name), first + skip
    columns = _passage_columns(path, own_ids)
    with reading_parquet(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        num_groups = file.num_row_groups
        sizes = [file.metadata.row_group(group).num_rows for group in range(num_groups)]
        ends = list(accumulate(sizes))
        first_group = bisect_right(ends, start)
        begins = ends[first_group - 1] if first_group else 0
        groups, names = range(first_group, num_groups), list(columns.values())
        num_packed, num_unpacked = path.stat().st_size, 0
        for batch in file.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=names):
            batch.validate(full=True)
            num_unpacked += sum(foreign.num_characters(each) or each.nbytes for each in batch)
            check_ratio(path, num_packed, num_unpacked)
            if begins + len(batch) > start:
                yield from _rows(path, batch.slice(max(0, start - begins)), columns, begins)
            begins += len(batch)


def _rows(
    path: Path, batch: pa.RecordBatch, columns: dict[str, str], begins: int
) -> Iterator[_Row]:
    texts = []
    for own in foreign.PASSAGES:
        if own not in columns:
            texts.append([""] * len(batch))
            continue
        column = as_text(path, columns[own], batch[columns[own]])
        if own in ("passage_id", "text") and column.null_count:
            raise InputError(
                f"{path}: column {columns[own]}: {column.null_count} of the rows from "
                f"{begins + 1:,} on are null; expected texts"
            )
        texts.append([value or "" for value in column.to_pylist()])
    yield from zip(*texts, strict=True)


def _row_place(number: int, record: _Row) -> str:
    return f"row {number:,}"


def _same(record: _Row) -> _Row:
    return record  # Parquet's texts are UTF-8


ROWS = RecordSplit(place=_row_place, count=_count_rows, records=_row_records, replaced=_same)
"""Rows of a Parquet file."""
ROWS_WITHOUT_IDS = replace(ROWS, records=partial(_row_records, own_ids=False))


_CsvRecord = tuple[bytes, bytes]
"""The header's line and the record's bytes."""
QUOTES = "a text in quotes ends with one, and a quote within it is written twice"
"""Advice where a file is no CSV."""
EXPECTED = "a first line that names an id and a text, such as docno,text"


def csv_files(inputs: Sequence[Path]) -> list[Path]:
    """Each file named, and the *.csv (otherwise *.tsv) of each folder; their headers are read.

    Raises:
        InputError: no file, or a file whose first line names no id or no text.
    """
    files = find_files(inputs, patterns=[r".*\.csv", r".*\.tsv"], expected="*.csv with a header")
    problems = []
    for path in files:
        with open_binary(path) as stream:
            first = next(lines(stream, name=str(path)), b"")
        try:
            _layout(first)
        except ValueError as error:
            problems.append(f"{path}: line 1: {error}")
    if problems:
        raise InputError(problems)
    return files


def parse_csv(record: _CsvRecord) -> tuple[str, str]:
    """The id and the text, behind title and headings where there are such.

    Raises:
        ValueError: another number of columns than the header has, a bad id, or not UTF-8.
    """
    header = _layout(record[0])
    text = record[1].decode()
    columns = text.split("\t") if header.separator == "\t" else _quoted(text, header.separator)
    if len(columns) != len(header.names):
        names = ", ".join(header.names)
        raise ValueError(f"expected the columns {names}, found {len(columns)} columns")
    places = header.places
    front = [columns[places[name]] for name in ("title", "headings") if name in places]
    text = columns[places["text"]]
    return checked_id(columns[places["passage_id"]]), titled(*front, text=text)


def _quoted(text: str, separator: str) -> list[str]:
    csv.field_size_limit(MAX_LINE_BYTES)  # otherwise a text of 131,072 characters is refused
    try:
        return next(csv.reader([text], delimiter=separator, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}; {QUOTES}") from None


@lru_cache(maxsize=64)
def _layout(line: bytes) -> foreign.Header:
    header = foreign.header_of(line.removeprefix(BOM), foreign.PASSAGES, "passage_id", "text")
    if header is None or header.separator == " ":
        raise ValueError(f"expected {EXPECTED}, found {line[:80].decode(errors='replace')!r}")
    return header


class _Ends:
    """Where records end in blocks that come one after the other: at newlines outside of quotes."""

    def __init__(self, header: bytes | None = None) -> None:
        """Nothing is read yet; without the header the first record is it."""
        self._inside, self._first = False, b""
        self._tabs = None if header is None else _layout(header).separator == "\t"

    def __call__(self, block: bytes) -> NDArray[np.intp]:
        """The positions in the block."""
        if self._tabs is None:
            self._first += block
            if b"\n" in self._first:
                line = self._first.partition(b"\n")[0]
                self._tabs = _layout(line.rstrip(b"\r")).separator == "\t"
                self._first = b""
        data = np.frombuffer(block, np.uint8)
        newlines = data == ord("\n")
        if self._tabs:
            return np.flatnonzero(newlines)
        quotes = np.cumsum(data == ord('"')) + self._inside
        self._inside = bool(quotes[-1] % 2) if len(quotes) else self._inside
        return np.flatnonzero(newlines & (quotes % 2 == 0))


def _count_csv(stream: BinaryIO, name: str, every: int) -> Counted:
    try:
        return counted(stream, every, _Ends(), headers=1)
    except ValueError as error:
        raise InputError(f"{name}: line 1: {error}") from None


def _csv_records(
    stream: BinaryIO, *, name: str, at: int, first: int, skip: int
) -> Iterator[_CsvRecord]:
    if first:
        stream.seek(0)
    records = _split(stream, _Ends(), name)
    header = next(records, b"").removeprefix(BOM)
    if first:
        stream.seek(at)
        records = _split(stream, _Ends(header), name)
    for record in islice(records, skip, None):
        yield header, record


def _split(stream: BinaryIO, ends: _Ends, name: str) -> Iterator[bytes]:
    pieces: list[bytes] = []
    for block in chunks(stream):
        start = 0
        for end in ends(block).tolist():
            yield b"".join([*pieces, block[start:end]]).removesuffix(b"\r")
            pieces, start = [], end + 1
        pieces.append(block[start:])
        if sum(map(len, pieces)) > MAX_LINE_BYTES:
            raise InputError(
                f"{name}: a record longer than {MAX_LINE_BYTES:,} bytes; is there a quote that "
                "does not end?"
            )
    if rest := b"".join(pieces):
        yield rest.removesuffix(b"\r")


def _replaced(record: tuple[Any, bytes]) -> tuple[Any, bytes]:
    return record[0], record[1].decode(errors="replace").encode()


def _csv_place(number: int, record: _CsvRecord) -> str:
    return f"record {number:,}"


RECORDS = RecordSplit(
    place=_csv_place, count=_count_csv, records=_csv_records, before=b"\n", replaced=_replaced
)
"""Records below a header, numbered from 1."""


Line = tuple[int, bytes]
"""A line's number and its bytes."""


def text_files(inputs: Sequence[Path]) -> list[Path]:
    """The one file, or the one *.txt of a folder; ids of two files would be the same.

    Raises:
        InputError: no file or several.
    """
    expected = "one *.txt with a passage in each line"
    files = find_files(inputs, patterns=[r".*\.txt"], expected=expected)
    if len(files) > 1:
        raise InputError(
            f"{files[1]}: expected {expected}, found {len(files)} files; line numbers are the "
            "ids, so join them into one, or write id TAB text"
        )
    return files


def parse_line(record: Line) -> tuple[str, str]:
    """The number as the id, and the line; nothing is stripped."""
    number, line = record
    return str(number), line.decode()


def _numbered(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[Line]:
    return enumerate(lines(stream, name=name, first=first, skip=skip), first + skip + 1)


NUMBERED = replace(LINES, records=_numbered, replaced=_replaced)
"""Lines with their numbers."""
