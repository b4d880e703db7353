"""CSV collections: a header names the columns, and texts in quotes may have line breaks.

Between tabs there are no quotes, and a record is a line.
"""

import csv
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from raypipe import foreign
from raypipe.data.files.compression import open_binary
from raypipe.data.files.inputs import find_files
from raypipe.data.files.records import BOM, MAX_LINE_BYTES, chunks, lines
from raypipe.data.files.split import Counted, Split, counted
from raypipe.data.formats.fields import checked_id, titled
from raypipe.errors import InputError

Record = tuple[bytes, bytes]
"""The header's line and the record's bytes."""
QUOTES = "a text in quotes ends with one, and a quote within it is written twice"
"""What to look for where a file is no CSV."""
EXPECTED = "a first line that names an id and a text, such as docno,text"


def files(inputs: Sequence[Path]) -> list[Path]:
    """Each file named, and the *.csv (otherwise *.tsv) of each folder; their headers are read.

    Raises:
        InputError: no file, or a file whose first line names no id or no text.
    """
    found = find_files(inputs, patterns=[r".*\.csv", r".*\.tsv"], expected="*.csv with a header")
    problems = []
    for path in found:
        with open_binary(path) as stream:
            first = next(lines(stream, name=str(path)), b"")
        try:
            _layout(first)
        except ValueError as error:
            problems.append(f"{path}: line 1: {error}")
    if problems:
        raise InputError(problems)
    return found


def parse(record: Record) -> tuple[str, str]:
    """The id and the text, behind the title and a blank if there is a title.

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
    title = columns[places["title"]] if "title" in places else ""
    body = columns[places["text"]]
    return checked_id(columns[places["passage_id"]]), titled(title, body)


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


def _count(stream: BinaryIO, name: str, every: int) -> Counted:
    try:
        return counted(stream, every, _Ends(), headers=1)
    except ValueError as error:
        raise InputError(f"{name}: line 1: {error}") from None


def _records(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[Record]:
    if first:
        stream.seek(0)
    found = _split(stream, _Ends(), name)
    header = next(found, b"").removeprefix(BOM)
    if first:
        stream.seek(at)
        found = _split(stream, _Ends(header), name)
    for record in islice(found, skip, None):
        yield header, record


def _split(stream: BinaryIO, ends: _Ends, name: str) -> Iterator[bytes]:
    held: list[bytes] = []
    for block in chunks(stream):
        start = 0
        for end in ends(block).tolist():
            yield b"".join([*held, block[start:end]]).removesuffix(b"\r")
            held, start = [], end + 1
        held.append(block[start:])
        if sum(map(len, held)) > MAX_LINE_BYTES:
            raise InputError(
                f"{name}: a record longer than {MAX_LINE_BYTES:,} bytes; is there a quote that "
                "does not end?"
            )
    if rest := b"".join(held):
        yield rest.removesuffix(b"\r")


def _replaced(record: Record) -> Record:
    return record[0], record[1].decode(errors="replace").encode()


def _place(number: int, record: Record) -> str:
    return f"record {number:,}"


RECORDS = Split(place=_place, count=_count, records=_records, before=b"\n", replaced=_replaced)
"""Records below a header, numbered from 1."""
