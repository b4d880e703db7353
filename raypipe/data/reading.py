"""Reads the passages, or other records, in a range of records of one input file."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, cast

from raypipe.data.facts import FileFacts, changed, check_unchanged
from raypipe.data.formats.fields import without_surrogates
from raypipe.data.formats.registry import Format, get_format
from raypipe.data.records import LINES, Problems, RecordSplit, again, first_quoted
from raypipe.errors import InputError, shown
from raypipe.storage.compression import open_binary
from raypipe.vocabulary import Ids

log = logging.getLogger(__name__)
FIRST_RECORDS = 1000
"""Number of records of each file that are looked at before any work."""
Errors = Literal["strict", "replace"]
Parsed = TypeVar("Parsed", bound=tuple[str, ...])
"""A parsed record: an id, then texts."""


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
    fields: Mapping[str, str] | None = None,
    start: int,
    stop: int,
    facts: FileFacts,
    errors: Errors = "strict",
    tally: Tally | None = None,
    ids: Ids | None = None,
) -> Iterator[tuple[str, str]]:
    """(passage_id, text) of records [start, stop) of the file, in order.

    A plain file is read from the checkpoint before `start`; a compressed one is unpacked from its
    beginning, so it is best read as a whole. Problems are collected while valid records are
    yielded, and raised at the end of the range: use the records only if nothing is raised.

    Args:
        path: the file that `facts` describes.
        format: a name in `formats.FORMATS`.
        fields: the names of the fields, of a format that takes them.
        start: first record, from 0.
        stop: one past the last record; at most `facts.num_records`.
        facts: from `count_file` on the same file.
        errors: "replace" turns bad UTF-8 into U+FFFD and counts the record in `tally`.
        tally: counts to add to.
        ids: see `get_format`.

    After the range is read, all bytes between the checkpoints around it (of a compressed file all
    bytes) are compared with the counted ones.

    Raises:
        InputError: records that cannot be parsed, the first ten by line and a count.
        CorruptError: the file is not the counted one, or changed while it was read.
    """
    kind = get_format(format, fields, ids)
    if kind.stream is None:
        assert kind.parse is not None
        yield from read_parsed(
            path,
            kind.parse,
            split=kind.split,
            start=start,
            stop=stop,
            facts=facts,
            errors=errors,
            tally=tally,
        )
        return
    streamed = kind.stream(path, start, stop)
    yield from _sound(path, streamed, start, stop, facts, tally or Tally(), lambda: None)


def read_parsed(
    path: Path,
    parse: Callable[[Any], Parsed],
    *,
    split: RecordSplit = LINES,
    start: int,
    stop: int,
    facts: FileFacts,
    errors: Errors = "strict",
    tally: Tally | None = None,
) -> Iterator[Parsed]:
    """Records [start, stop) of the file, each as `parse` returns it; otherwise as `read_records`.

    `split` says how the file becomes records; by default they are lines.
    """
    counts = tally or Tally()

    def parsed() -> Iterator[Parsed | str]:
        """Each parsed record, or the place and the problem of one that cannot be parsed."""
        with open_binary(path) as stream:
            if (num_bytes := path.stat().st_size) != facts.num_bytes:
                raise changed(path, f"{facts.num_bytes:,} bytes expected, {num_bytes:,} found")
            first, at = _seek(stream, path, start, facts, split.before)
            records = split.records(stream, name=str(path), at=at, first=first, skip=start - first)
            # The range comes first in zip, so that no record after it is read.
            for number, record in zip(range(start + 1, stop + 1), records, strict=False):
                outcome = _record(record, parse, split, errors, counts)
                bad = isinstance(outcome, str)
                yield f"{split.place(number, record)}: {outcome}" if bad else outcome

    yield from _sound(
        path,
        parsed(),
        start,
        stop,
        facts,
        counts,
        lambda: check_unchanged(path, facts, start, stop),
    )


def first_problems(
    files: Sequence[Path], kind: Format, parse: Callable[[Any], Parsed], errors: Errors
) -> list[str]:
    """Problems of the first records of each file, for a look before any work.

    Named are records that cannot be parsed, ids that come again among these, and files that are
    all without a record.

    Raises:
        InputError: a file cannot be read.
    """
    what = "passage" if parse is kind.parse else "document"
    problems, seen = Problems(), dict[str, str]()
    for path in files:
        with open_binary(path) as stream:
            records = kind.split.records(stream, name=str(path), at=0, first=0, skip=0)
            texts: list[str] = []
            for number, record in enumerate(islice(records, FIRST_RECORDS), 1):
                place = f"{path}: {kind.split.place(number, record)}"
                parsed = _record(record, parse, kind.split, errors, Tally())
                if isinstance(parsed, str):
                    problems.add(f"{place}: {parsed}")
                elif seen.setdefault(parsed[0], place) != place:
                    problems.add(again(place, parsed[0], seen[parsed[0]], what))
                elif not _is_object(record):
                    texts.append(parsed[-1])
        if (quoted := first_quoted(texts)) is not None:
            log.warning(
                "%s: the quotes around texts seem to be those of a CSV file, and are read as text: "
                "%s; write them without quotes, or the file as CSV with a header",
                path,
                shown(quoted),
            )
    if not seen and not problems.num_problems:
        problems.add(f"{', '.join(map(str, files))}: expected {what}s, found no record")
    return problems.told()


def _is_object(record: Any) -> bool:
    """Whether a record is a JSON object, with an id before it or not."""
    last = record[-1] if isinstance(record, tuple) else record
    return isinstance(last, bytes) and last.startswith(b"{")


def ids_in(
    files: Sequence[Path], kind: Format, parse: Callable[[Any], Parsed], errors: Errors
) -> Iterator[str]:
    """The id of every record that can be parsed, in order; problems are another reading's to tell.

    Raises:
        InputError: a file cannot be read.
    """
    for path in files:
        with open_binary(path) as stream:
            for record in kind.split.records(stream, name=str(path), at=0, first=0, skip=0):
                parsed = _record(record, parse, kind.split, errors, Tally())
                if not isinstance(parsed, str):
                    yield parsed[0]


def _sound(
    path: Path,
    records: Iterator[Parsed | str],
    start: int,
    stop: int,
    facts: FileFacts,
    tally: Tally,
    check: Callable[[], None],
) -> Iterator[Parsed]:
    """The records without problems; the problems are raised at the end, after the check."""
    assert 0 <= start <= stop <= facts.num_records, (start, stop, facts.num_records)
    if start == stop:
        return
    num_read = 0
    problems = Problems()
    try:
        for parsed in records:
            num_read += 1
            if isinstance(parsed, str):
                problems.add(f"{path}: {parsed}")
            else:
                tally.num_blank += not any(text.strip() for text in parsed[1:])
                yield parsed
    except InputError:  # it was whole when it was counted: is it still the same file?
        check()
        raise
    check()
    problems.raise_if_any()
    if num_read != stop - start:
        raise changed(path, f"records {start:,} to {stop:,} expected, {num_read:,} found")


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


def _record(
    record: Any, parse: Callable[[Any], Parsed], split: RecordSplit, errors: Errors, tally: Tally
) -> Parsed | str:
    """The parsed record, or its problem as text."""
    try:
        try:
            parsed = parse(record)
            "".join(parsed).encode()  # a JSON escape can name half a surrogate pair
        except UnicodeError as error:
            if errors == "strict":
                return (
                    f"not UTF-8 ({error}); the key collection.errors=replace, in a recipe or "
                    "behind `raypipe prepare`, makes it U+FFFD and counts it"
                )
            own_id, *texts = parse(split.replaced(record))
            if without_surrogates(own_id) != own_id or "\ufffd" in own_id:
                return f"the id {shown(own_id)} is not UTF-8; ids are never replaced"
            tally.num_replaced += 1
            parsed = cast(Parsed, (own_id, *map(without_surrogates, texts)))
    except ValueError as error:
        return str(error)
    return parsed
