"""Reads the passages, or other records, in a range of records of one input file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar, cast

from raypipe.data.facts import FileFacts
from raypipe.data.files.compression import open_binary
from raypipe.data.files.problems import Problems
from raypipe.data.files.records import lines
from raypipe.data.formats.fields import shown, without_surrogates
from raypipe.data.formats.registry import get_format
from raypipe.data.unchanged import changed, check_unchanged

Errors = Literal["strict", "replace"]
Parsed = TypeVar("Parsed", bound=tuple[str, ...])
"""What a line becomes: an id, then texts."""


@dataclass
class Tally:
    """Counts that a reading adds to."""

    num_replaced: int = 0
    """Number of records in which bytes that are not UTF-8, or lone surrogates, became U+FFFD."""
    num_blank: int = 0
    """Number of records whose texts are all empty or white space; they are kept."""


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
    kind = get_format(format)
    if kind.stream is None:
        assert kind.parse is not None
        yield from read_parsed(
            path, kind.parse, start=start, stop=stop, facts=facts, errors=errors, tally=tally
        )
        return
    streamed = enumerate(kind.stream(path, start, stop), start + 1)
    yield from _sound(path, streamed, start, stop, facts, tally or Tally())


def read_parsed(
    path: Path,
    parse: Callable[[bytes], Parsed],
    *,
    start: int,
    stop: int,
    facts: FileFacts,
    errors: Errors = "strict",
    tally: Tally | None = None,
) -> Iterator[Parsed]:
    """What `parse` makes of lines [start, stop) of the file; otherwise as `read_records`."""
    tally = tally or Tally()
    parsed = _parsed(path, parse, start, stop, facts, errors, tally)
    yield from _sound(path, parsed, start, stop, facts, tally)


def _sound(
    path: Path,
    records: Iterator[tuple[int, Parsed | str]],
    start: int,
    stop: int,
    facts: FileFacts,
    tally: Tally,
) -> Iterator[Parsed]:
    """The records without problems; the problems are raised at the end."""
    assert 0 <= start <= stop <= facts.num_records, (start, stop, facts.num_records)
    if start == stop:
        return
    num_read = 0
    problems = Problems()
    for number, parsed in records:
        num_read += 1
        if isinstance(parsed, str):
            problems.add(f"{path}: line {number:,}: {parsed}")
        else:
            tally.num_blank += not any(text.strip() for text in parsed[1:])
            yield parsed
    problems.raise_if_any()
    if num_read != stop - start:
        raise changed(path, f"records {start:,} to {stop:,} expected, {num_read:,} found")


def _parsed(
    path: Path,
    parse: Callable[[bytes], Parsed],
    start: int,
    stop: int,
    facts: FileFacts,
    errors: Errors,
    tally: Tally,
) -> Iterator[tuple[int, Parsed | str]]:
    """Each line's number from 1, with what it holds or its problem; then the file is checked."""
    with open_binary(path) as stream:
        if (num_bytes := path.stat().st_size) != facts.num_bytes:
            raise changed(path, f"{facts.num_bytes:,} bytes expected, {num_bytes:,} found")
        first = _seek(stream, path, start, facts)
        records = lines(stream, name=str(path), first=first, skip=start - first)
        # The range comes first in zip, so that no record after it is read.
        for number, record in zip(range(start + 1, stop + 1), records, strict=False):
            yield number, _record(record, parse, errors, tally)
    check_unchanged(path, facts, start, stop)


def _seek(stream: BinaryIO, path: Path, start: int, facts: FileFacts) -> int:
    """Move to the checkpoint at or before `start`; the number of the record that begins there."""
    if facts.compressed or start < facts.checkpoint_records:
        return 0
    checkpoint = start // facts.checkpoint_records
    stream.seek(facts.checkpoints[checkpoint] - 1)
    if stream.read(1) != b"\n":
        raise changed(path, f"no record begins at byte {facts.checkpoints[checkpoint]:,}")
    return checkpoint * facts.checkpoint_records


def _record(
    record: bytes, parse: Callable[[bytes], Parsed], errors: Errors, tally: Tally
) -> Parsed | str:
    """What the record holds, or its problem as text."""
    try:
        try:
            found = parse(record)
            "".join(found).encode()  # a JSON escape can name half a surrogate pair
        except UnicodeError as error:
            if errors == "strict":
                return f"not UTF-8 ({error}); with errors: replace it becomes U+FFFD and is counted"
            own_id, *texts = parse(record.decode(errors="replace").encode())
            if without_surrogates(own_id) != own_id or "\ufffd" in own_id:
                return f"the id {shown(own_id)} is not UTF-8; ids are never replaced"
            tally.num_replaced += 1
            found = cast(Parsed, (own_id, *map(without_surrogates, texts)))
    except ValueError as error:
        return str(error)
    return found
