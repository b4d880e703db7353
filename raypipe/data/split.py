"""How a file's bytes become records: how they are counted, and read from one of them on."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypipe.data.records import chunks, lines


class Counted(NamedTuple):
    """Counts of a file, so that a range of records can be read without the ones before it."""

    num_records: int
    checkpoints: tuple[int, ...]
    """The byte at which every n-th record begins, from the first record on."""
    stretches: tuple[str, ...]
    """SHA-256 of the bytes from each checkpoint to the next."""


Ends = Callable[[bytes], NDArray[np.intp]]
"""A block -> the positions in it at which records end."""


Records = Callable[..., Iterator[Any]]
"""(stream, name=, at=, first=, skip=) -> the records after the next `skip`, in order, from a stream
that stands where one begins; `first` is the number of the next, `at` its byte."""


@dataclass(frozen=True, kw_only=True)
class RecordSplit:
    """A way of dividing a file into records."""

    place: Callable[[int, Any], str]
    """Number of a record and the record -> where it is, for messages."""
    count: Callable[[BinaryIO, str, int], Counted]
    """Stream, name, every -> the counts. Raises InputError."""
    records: Records
    before: bytes = b""
    """Bytes before every record but the first."""
    replaced: Callable[[Any], Any]
    """A record with U+FFFD for what is not UTF-8 in it."""


def count_lines(stream: BinaryIO, name: str, every: int) -> Counted:
    """The lines of a stream, in one pass over its blocks."""
    return counted(stream, every, _newlines)


def _newlines(block: bytes) -> NDArray[np.intp]:
    return np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))


def counted(stream: BinaryIO, every: int, ends_in: Ends, *, headers: int = 0) -> Counted:
    """The records of a stream that end where `ends_in` says, block by block.

    The first `headers` of them are none, but belong to the first stretch.
    """
    checkpoints, num_ended, offset, last_end = [0], -headers, 0, 0
    stretches, stretch = [], hashlib.sha256()
    for chunk in chunks(stream):
        ends = ends_in(chunk) + 1
        # Record r begins after end number r, counted from 1 behind the headers.
        hashed = 0
        first = max(every, (num_ended // every + 1) * every)
        for record in range(first, num_ended + len(ends) + 1, every):
            end = int(ends[record - num_ended - 1])
            checkpoints.append(offset + end)
            stretch.update(chunk[hashed:end])
            stretches.append(stretch.hexdigest())
            stretch, hashed = hashlib.sha256(), end
        stretch.update(chunk[hashed:])
        if len(ends):
            last_end = offset + int(ends[-1])
        num_ended += len(ends)
        offset += len(chunk)
    num_records = max(0, num_ended + (offset > last_end))
    num_stretches = -(-num_records // every)
    stretches.append(stretch.hexdigest())
    return Counted(
        num_records, tuple(checkpoints[:num_stretches]), tuple(stretches[:num_stretches])
    )


def _lines(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[bytes]:
    return lines(stream, name=name, first=first, skip=skip)


def _replaced(line: bytes) -> bytes:
    return line.decode(errors="replace").encode()


def _place(number: int, line: bytes) -> str:
    return f"line {number:,}"


LINES = RecordSplit(
    place=_place, count=count_lines, records=_lines, before=b"\n", replaced=_replaced
)
