"""Reads the passages in a range of records of one input file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from raypipe.data.facts import FileFacts
from raypipe.data.files.compression import open_binary
from raypipe.data.files.problems import Problems
from raypipe.data.formats.fields import shown, without_surrogates
from raypipe.data.formats.registry import Format, get_format
from raypipe.data.unchanged import changed, check_unchanged
from raypipe.errors import InputError

Errors = Literal["strict", "replace"]


@dataclass
class Tally:
    """Counts that a reading adds to."""

    num_replaced: int = 0
    """Number of records in which bytes that are not UTF-8, or lone surrogates, became U+FFFD."""
    num_blank: int = 0
    """Number of passages whose text is empty or white space; they are kept."""


def read_records(
    path: Path,
    *,
    format: str,
    start: int,
    stop: int,
    facts: FileFacts,
    errors: Errors = "strict",
    tally: Tally | None = None,
) -> Iterator[tuple[str, str]]:
    """(passage_id, text) of records [start, stop) of the file, in order.

    A plain file is read from the checkpoint before `start`; a compressed one is unpacked from its
    beginning, so it is best read as a whole. Problems are collected while valid records are
    yielded, and raised at the end of the range: use the records only if nothing is raised.

    Args:
        path: the file that `facts` describes.
        format: a name in `formats.FORMATS`.
        start: first record, from 0.
        stop: one past the last record; at most `facts.num_records`.
        facts: from `count_file` on the same file.
        errors: "replace" turns bad UTF-8 into U+FFFD and counts the record in `tally`.
        tally: counts to add to.

    After the range is read, all bytes between the checkpoints around it (of a compressed file all
    bytes) are compared with the counted ones.

    Raises:
        InputError: records that cannot be parsed, the first ten by line and a count.
        CorruptError: the file is not the counted one, or changed while it was read.
    """
    assert 0 <= start <= stop <= facts.num_records, (start, stop, facts.num_records)
    kind, tally = get_format(format), tally or Tally()
    if start == stop:
        return
    num_read = 0
    problems = Problems()
    try:
        for parsed in _parsed(path, kind, start, stop, facts, errors, tally):
            num_read += 1
            if isinstance(parsed, str):
                problems.add(f"{path}: {parsed}")
            else:
                tally.num_blank += not parsed[1].strip()
                yield parsed
    except InputError:  # it was whole when it was counted: is it still the same file?
        if kind.parse is not None:
            check_unchanged(path, facts, start, stop)
        raise
    if kind.parse is not None:
        check_unchanged(path, facts, start, stop)
    problems.raise_if_any()
    if num_read != stop - start:
        raise changed(path, f"records {start:,} to {stop:,} expected, {num_read:,} found")


def _parsed(
    path: Path, kind: Format, start: int, stop: int, facts: FileFacts, errors: Errors, tally: Tally
) -> Iterator[tuple[str, str] | str]:
    """Each record's passage, or where it is with its problem."""
    if kind.parse is None:
        assert kind.stream is not None
        yield from kind.stream(path, start, stop)
        return
    with open_binary(path) as stream:
        if (num_bytes := path.stat().st_size) != facts.num_bytes:
            raise changed(path, f"{facts.num_bytes:,} bytes expected, {num_bytes:,} found")
        first, at = _seek(stream, path, start, facts, kind.split.before)
        records = kind.split.records(stream, name=str(path), at=at, first=first, skip=start - first)
        # The range comes first in zip, so that no record after it is read.
        for number, record in zip(range(start + 1, stop + 1), records, strict=False):
            found = _passage(record, kind, errors, tally)
            problem = isinstance(found, str)
            yield f"{kind.split.place(number, record)}: {found}" if problem else found


def _seek(
    stream: BinaryIO, path: Path, start: int, facts: FileFacts, before: bytes
) -> tuple[int, int]:
    """Move to the checkpoint at or before `start`; the record that begins there, and its byte."""
    if facts.compressed or start < facts.checkpoint_records:
        return 0, 0
    checkpoint = start // facts.checkpoint_records
    at = facts.checkpoints[checkpoint]
    stream.seek(at - len(before))
    if stream.read(len(before)) != before:
        raise changed(path, f"no record begins at byte {at:,}")
    return checkpoint * facts.checkpoint_records, at


def _passage(record: Any, kind: Format, errors: Errors, tally: Tally) -> tuple[str, str] | str:
    """The record's passage, or its problem as text."""
    assert kind.parse is not None
    try:
        try:
            passage_id, text = kind.parse(record)
            (passage_id + text).encode()  # a JSON escape can name half a surrogate pair
        except UnicodeError as error:
            if errors == "strict":
                return f"not UTF-8 ({error}); with errors: replace it becomes U+FFFD and is counted"
            passage_id, text = kind.parse(kind.split.replaced(record))
            if without_surrogates(passage_id) != passage_id or "\ufffd" in passage_id:
                return f"the id {shown(passage_id)} is not UTF-8; ids are never replaced"
            tally.num_replaced += 1
            text = without_surrogates(text)
    except ValueError as error:
        return str(error)
    return passage_id, text
