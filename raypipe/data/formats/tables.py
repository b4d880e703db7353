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
from raypipe.data.formats.fields import checked_id, joined, titled
from raypipe.data.records import (
    BOM,
    LINES,
    MAX_LINE_BYTES,
    Counted,
    RecordSplit,
    chunks,
    counted,
    lines,
)
from raypipe.errors import InputError
from raypipe.regular import check_ratio, check_regular, reading_parquet
from raypipe.storage.compression import open_binary

MAGIC = b"PAR1"
Names = tuple[tuple[str, tuple[str, ...]], ...]
"""Our columns of a passage, each with the names that a file may give it."""
ANY_NAMES: Names = tuple(foreign.PASSAGES.items())
WITHOUT_IDS: Names = tuple(each for each in ANY_NAMES if each[0] != "passage_id")
"""The same where a file's ids, if it has some, are not read."""
_PARTS = {"id": "passage_id", "title": "title", "headings": "headings", "body": "text"}
"""Key of a recipe's `fields` -> our column."""


def names_in(fields: Mapping[str, str]) -> Names:
    """The columns that a recipe's `fields` name; capitals matter where two differ in them alone."""
    parts = [(own, fields[key]) for key, own in _PARTS.items() if key in fields]
    return tuple(
        (own, tuple(dict.fromkeys((name.strip(), name.strip().lower())))) for own, name in parts
    )


def _needed(names: Names) -> list[str]:
    """The columns that a file must have: an id and a text, or all that a recipe names."""
    parts = [own for own, _ in names]
    return parts if _are_named(names) else [own for own in ("passage_id", "text") if own in parts]


def _text(front: Sequence[str], text: str, names: Names) -> str:
    return joined(*front, text) if _are_named(names) else titled(*front, text=text)


def _are_named(names: Names) -> bool:
    """Whether a recipe names the columns."""
    return names not in (ANY_NAMES, WITHOUT_IDS)


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
        try:
            arrays[own] = column if own in numbers else foreign.as_text(name, column)
            foreign.check_no_nulls(name, column)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
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
        shown = {own: aliases[own][0] for own in needed}  # what a recipe calls it, if it does
        also = foreign.also(aliases, *missing)
        raise InputError(
            f"{path}: expected columns {', '.join(shown.values())}; missing "
            f"{', '.join(shown[own] for own in missing)}; found {', '.join(names)}"
            + (f" ({also})" if also else "")
        )
    if twice := [name for name in columns.values() if names.count(name) > 1]:
        raise InputError(f"{path}: expected each column once, found {', '.join(twice)} twice")
    return columns


_Row = tuple[str, ...]
"""Id, title, headings and text."""
BATCH_ROWS = 1024
VALUE_BYTES = 8
"""Size of a number in memory, and the least of a text."""


NO_IDS = "; where there are no ids, `collection.id=file-row` makes them of file names and rows"


def parquet_files(inputs: Sequence[Path], names: Names = ANY_NAMES) -> list[Path]:
    """Each file named, and the *.parquet of each folder; their columns are read.

    Raises:
        InputError: no file, or a file that is not Parquet or lacks a column.
    """
    files = find_files(inputs, patterns=[r".*\.parquet"], expected="*.parquet")
    problems, hint = [], "" if _are_named(names) else NO_IDS
    for path in files:
        try:
            if not is_parquet(path):
                raise InputError(f"{path}: expected Parquet, found another content")
            parquet_columns(path, dict(names), *_needed(names))
        except InputError as error:
            problems += [
                f"{problem}{hint}" if "missing passage_id" in problem else problem
                for problem in error.problems
            ]
    if problems:
        raise InputError(problems)
    return files


def text_of_row(record: _Row, names: Names = ANY_NAMES) -> str:
    """The text, behind title and headings where there are such."""
    return _text(record[1:-1], record[-1], names)


def parse_row(record: _Row, names: Names = ANY_NAMES) -> tuple[str, str]:
    """The id and the text, behind title and headings where there are such.

    Raises:
        ValueError: a bad id.
    """
    return checked_id(record[0]), text_of_row(record, names)


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
    stream: BinaryIO, *, name: str, at: int, first: int, skip: int, names: Names
) -> Iterator[_Row]:
    """Rows from `first` + `skip` on; the row groups before are not read."""
    path, start = Path(name), first + skip
    columns = parquet_columns(path, dict(names), *_needed(names))
    may_lack = [columns["text"]] if _are_named(names) and "title" in columns else []
    with reading_parquet(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        num_groups = file.num_row_groups
        sizes = [file.metadata.row_group(group).num_rows for group in range(num_groups)]
        ends = list(accumulate(sizes))
        first_group = bisect_right(ends, start)
        begins = ends[first_group - 1] if first_group else 0
        groups, chosen = range(first_group, num_groups), list(columns.values())
        num_packed, num_unpacked = path.stat().st_size, 0
        for batch in file.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=chosen):
            batch.validate(full=True)
            num_unpacked += sum(foreign.num_characters(each) or each.nbytes for each in batch)
            check_ratio(path, num_packed, num_unpacked)
            if begins + len(batch) > start:
                rows = batch.slice(max(0, start - begins))
                yield from _rows(path, rows, columns, max(begins, start), may_lack)
            begins += len(batch)


def _rows(
    path: Path,
    batch: pa.RecordBatch,
    columns: dict[str, str],
    begins: int,
    may_lack: Sequence[str],
) -> Iterator[_Row]:
    """The rows of a batch, with `begins` rows of the file in front of it; `may_lack` are columns of
    texts in which null is an empty one."""
    texts = []
    for own in foreign.PASSAGES:
        if own not in columns:
            texts.append([""] * len(batch))
            continue
        name = columns[own]
        try:
            column = foreign.as_text(name, batch[name])
            if own in ("passage_id", "text") and name not in may_lack:
                foreign.check_no_nulls(name, column, first=begins + 1)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
        texts.append([value or "" for value in column.to_pylist()])
    yield from zip(*texts, strict=True)


def _row_place(number: int, record: _Row) -> str:
    return f"row {number:,}"


def _same(record: _Row) -> _Row:
    return record  # Parquet's texts are UTF-8


def row_split(names: Names = ANY_NAMES) -> RecordSplit:
    """Rows of a Parquet file."""
    records = partial(_row_records, names=names)
    return RecordSplit(place=_row_place, count=_count_rows, records=records, replaced=_same)


ROWS = row_split()


_CsvRecord = tuple[bytes, bytes]
"""The header's line and the record's bytes."""
QUOTES = "a text in quotes ends with one, and a quote within it is written twice"
"""Advice where a file is no CSV."""
EXPECTED = "a first line that names an id and a text, such as docno,text"


def csv_files(inputs: Sequence[Path], names: Names = ANY_NAMES) -> list[Path]:
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
            _layout(first, names)
        except ValueError as error:
            problems.append(f"{path}: line 1: {error}")
    if problems:
        raise InputError(problems)
    return files


def parse_csv(record: _CsvRecord, names: Names = ANY_NAMES) -> tuple[str, str]:
    """The id and the text, behind title and headings where there are such.

    Raises:
        ValueError: another number of columns than the header has, a bad id, or not UTF-8.
    """
    header = _layout(record[0], names)
    text = record[1].decode()
    columns = text.split("\t") if header.separator == "\t" else _quoted(text, header.separator)
    if len(columns) != len(header.names):
        expected = ", ".join(header.names)
        raise ValueError(f"expected the columns {expected}, found {len(columns)} columns")
    places = header.places
    front = [columns[places[name]] for name in ("title", "headings") if name in places]
    text = columns[places["text"]]
    return checked_id(columns[places["passage_id"]]), _text(front, text, names)


def _quoted(text: str, separator: str) -> list[str]:
    csv.field_size_limit(MAX_LINE_BYTES)  # otherwise a text of 131,072 characters is refused
    try:
        return next(csv.reader([text], delimiter=separator, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}; {QUOTES}") from None


@lru_cache(maxsize=64)
def _layout(line: bytes, names: Names) -> foreign.Header:
    header = foreign.header_of(line.removeprefix(BOM), dict(names), *_needed(names))
    if header is None or header.separator == " ":
        named = ", ".join(each for _, (each, *_others) in names)
        expected = EXPECTED if names == ANY_NAMES else f"a first line with {named}"
        raise ValueError(f"expected {expected}, found {line[:80].decode(errors='replace')!r}")
    return header


class _Ends:
    """Where records end in blocks that come one after the other: at newlines outside of quotes."""

    def __init__(self, names: Names, header: bytes | None = None) -> None:
        """Nothing is read yet; without the header the first record is it."""
        self._inside, self._first, self._names = False, b"", names
        self._tabs = None if header is None else _layout(header, names).separator == "\t"

    def __call__(self, block: bytes) -> NDArray[np.intp]:
        """The positions in the block."""
        if self._tabs is None:
            self._first += block
            if b"\n" in self._first:
                line = self._first.partition(b"\n")[0]
                self._tabs = _layout(line.rstrip(b"\r"), self._names).separator == "\t"
                self._first = b""
        data = np.frombuffer(block, np.uint8)
        newlines = data == ord("\n")
        if self._tabs:
            return np.flatnonzero(newlines)
        quotes = np.cumsum(data == ord('"')) + self._inside
        self._inside = bool(quotes[-1] % 2) if len(quotes) else self._inside
        return np.flatnonzero(newlines & (quotes % 2 == 0))


def _count_csv(stream: BinaryIO, name: str, every: int, *, names: Names) -> Counted:
    try:
        return counted(stream, every, _Ends(names), headers=1)
    except ValueError as error:
        raise InputError(f"{name}: line 1: {error}") from None


def _csv_records(
    stream: BinaryIO, *, name: str, at: int, first: int, skip: int, names: Names
) -> Iterator[_CsvRecord]:
    if first:
        stream.seek(0)
    records = _split(stream, _Ends(names), name)
    header = next(records, b"").removeprefix(BOM)
    if first:
        stream.seek(at)
        records = _split(stream, _Ends(names, header), name)
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


def csv_split(names: Names = ANY_NAMES) -> RecordSplit:
    """Records below a header, numbered from 1."""
    return RecordSplit(
        place=_csv_place,
        count=partial(_count_csv, names=names),
        records=partial(_csv_records, names=names),
        before=b"\n",
        replaced=_replaced,
    )


RECORDS = csv_split()


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
