r"""Records of a text file: bytes split at b"\n" and at nothing else.

Passages contain U+2028, U+0085, vertical tabs, lone carriage returns, NULs and quotes. Readers in
text mode, csv readers and `splitlines` split records there, or lose them without an error.
Problems are collected, so that a user sees them together.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError, shown
from raypipe.regular import check_returns, check_utf8_mark

MAX_SHOWN = 10


class Problems:
    """The first ten problems and a count of all."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.num_problems = 0

    def add(self, message: str) -> None:
        """Count a problem, and keep its message if it is among the first ten."""
        self.num_problems += 1
        if len(self.shown) < MAX_SHOWN:
            self.shown.append(message)

    def raise_if_any(self) -> None:
        """Raise the collected problems, if any.

        Raises:
            InputError: the first ten problems, then how many more there are.
        """
        if self.num_problems:
            raise InputError(self.told())

    def told(self) -> list[str]:
        """The first ten problems, then how many more there are."""
        hidden = self.num_problems - len(self.shown)
        return self.shown + ([f"and {hidden:,} more problems"] if hidden else [])


def again(place: str, own_id: str, first: str, kind: str = "passage") -> str:
    """The message about an id that two records have."""
    return f"{place}: {kind} id {shown(own_id)} again, first in {first}; ids must be unique"


def first_quoted(texts: Sequence[str]) -> str | None:
    """The first of the texts that a CSV writer seems to have put in quotes; None if none has.

    So it seems where each text with a quote begins and ends with one, and has those within it
    doubled, and where all texts are such or each has a cause: a quote or a tab within it.
    """
    quoted = [text for text in texts if '"' in text]
    inner = [text[1:-1] for text in quoted if len(text) > 1 and text[0] == text[-1] == '"']
    if len(inner) < len(quoted) or any('"' in text.replace('""', "") for text in inner):
        return None
    all_are = len(quoted) == len(texts) > 1
    if quoted and (all_are or all('"' in text or "\t" in text for text in inner)):
        return quoted[0]
    return None


MAX_LINE_BYTES = 64 << 20  # a longer line is a bomb, or the file is not text
CHUNK_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"


def chunks(stream: BinaryIO) -> Iterator[bytes]:
    """The stream's bytes in blocks of at most 1 MiB."""
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def lines(
    stream: BinaryIO,
    *,
    name: str = "stream",
    first: int = 0,
    skip: int = 0,
    max_line_bytes: int = MAX_LINE_BYTES,
    of_many: bool = False,
) -> Iterator[bytes]:
    r"""Records in order, each without its b"\n" and without one trailing b"\r".

    Memory is bounded by the longest line. A last line without b"\n" counts; nothing after the
    last b"\n" does not. A byte order mark is removed from the file's record 0.

    Args:
        stream: bytes, read from its current position to its end.
        name: the file's name, for messages.
        first: number of the record that begins at the stream's position (after a seek).
        skip: number of records to skip; this is cheap, as they are only counted.
        max_line_bytes: limit for one record.
        of_many: whether a file of one record with returns in it is refused, if it has no line feed.

    Raises:
        InputError: a line longer than `max_line_bytes`, UTF-16, what `of_many` refuses, or a
            problem found by the stream.
    """
    number = first + skip
    whole = name if of_many and not number else None
    for line in _split(_after(chunks(stream), skip), limit=max_line_bytes, whole=whole):
        number += 1
        if len(line) > max_line_bytes:
            raise InputError(
                f"{name}: line {number:,}: longer than {max_line_bytes:,} bytes; is this a text"
                " file with one record per line?"
            )
        if number == 1:
            check_utf8_mark(name, line)
            line = line.removeprefix(BOM)
        yield line.removesuffix(b"\r")


def _after(blocks: Iterator[bytes], num_lines: int) -> Iterator[bytes]:
    """The bytes after the first `num_lines` lines."""
    for block in blocks:
        if num_lines:
            count = block.count(b"\n")
            if count < num_lines:
                num_lines -= count
                continue
            block = block.split(b"\n", num_lines)[-1]
            num_lines = 0
        yield block


def _split(blocks: Iterator[bytes], *, limit: int, whole: str | None) -> Iterator[bytes]:
    """Lines without b"\\n"; stops early at a line longer than the limit.

    `whole` is the name of a file whose blocks are all there, to be refused as `lines` says.
    """
    tail: list[bytes] = []
    tail_bytes = 0
    for block in blocks:
        head, *rest = block.split(b"\n")
        tail.append(head)
        tail_bytes += len(head)
        if tail_bytes > limit:
            break
        if rest:
            yield b"".join(tail)
            yield from rest[:-1]
            tail, tail_bytes, whole = [rest[-1]], len(rest[-1]), None
    if tail_bytes:
        if whole is not None:
            check_returns(whole, b"".join(tail))
        yield b"".join(tail)


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
