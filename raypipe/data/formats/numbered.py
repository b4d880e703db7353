"""Plain text: each line is a passage, and its number in the file, from 1, is its id."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from raypipe.data.files.inputs import find_files
from raypipe.data.files.records import lines
from raypipe.data.files.split import LINES
from raypipe.errors import InputError

Line = tuple[int, bytes]
"""A line's number and its bytes."""


def files(inputs: Sequence[Path]) -> list[Path]:
    """The one file, or the one *.txt of a folder; ids of two files would be the same.

    Raises:
        InputError: no file or several.
    """
    expected = "one *.txt with a passage in each line"
    found = find_files(inputs, patterns=[r".*\.txt"], expected=expected)
    if len(found) > 1:
        raise InputError(
            f"{found[1]}: expected {expected}, found {len(found)} files; line numbers are the "
            "ids, so join them into one, or write id TAB text"
        )
    return found


def parse(record: Line) -> tuple[str, str]:
    """The number as the id, and the line; nothing is stripped."""
    number, line = record
    return str(number), line.decode()


def _numbered(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[Line]:
    return enumerate(lines(stream, name=name, first=first, skip=skip), first + skip + 1)


def _replaced(record: Line) -> Line:
    number, line = record
    return number, line.decode(errors="replace").encode()


NUMBERED = replace(LINES, records=_numbered, replaced=_replaced)
"""Lines with their numbers."""
