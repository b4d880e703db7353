"""JSON: passages of any names, of BEIR and Pyserini, and documents whose fields are named.

An object is a line. Where a file's first line is only the beginning of one, or of an array, its
objects are over several lines, one after the other or in that array. Anserini's JsonCollection
reads them so.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from raypipe import foreign
from raypipe.data.formats.fields import Document, joined, json_id, json_object, json_text, titled
from raypipe.data.records import BOM, LINES, MAX_LINE_BYTES, Counted, RecordSplit, chunks, counted
from raypipe.errors import InputError, shown
from raypipe.regular import check_utf8_mark
from raypipe.storage.compression import open_binary

_SPANS = re.compile(r"\([0-9]{1,18},[0-9]{1,18}\)(,\([0-9]{1,18},[0-9]{1,18}\))*")


def parse_any(record: bytes) -> tuple[str, str]:
    """The id and the text, under any name, behind title and headings where there are such.

    Source: ir_datasets, for MS MARCO's documents and segments: title, headings, text.

    Raises:
        ValueError: not such an object, a bad id, or not UTF-8.
    """
    fields = json_object(record)
    passage_id = json_id(fields, *names_of(fields, foreign.PASSAGES, "passage_id"))
    return passage_id, _text_of(fields)


def parse_text(record: bytes) -> str:
    """The text alone; see `parse_any`."""
    return _text_of(json_object(record))


def _text_of(fields: dict[str, Any]) -> str:
    text = json_text(fields, *names_of(fields, foreign.PASSAGES, "text"))
    named = foreign.columns_of(fields, foreign.PASSAGES)
    front = [_text_or_null(fields, named.get(name)) for name in ("title", "headings")]
    return titled(*front, text=text)


def names_of(
    fields: Collection[str], aliases: Mapping[str, Sequence[str]], own: str
) -> tuple[str, ...]:
    """The field of that meaning; if there is none, all that it could be, for the message."""
    columns = foreign.columns_of(fields, aliases)
    return (columns[own],) if own in columns else tuple(aliases[own])


def parse_beir(record: bytes) -> tuple[str, str]:
    """`_id`, and title, blank, text; only the text if the title is missing or empty."""
    fields = json_object(record)
    title = _text_or_null(fields, "title") if "title" in fields else ""
    return json_id(fields, "_id"), titled(title, text=json_text(fields, "text"))


def parse_pyserini(record: bytes) -> tuple[str, str]:
    """`id` (or `_id`, `docid`) and `contents`."""
    fields = json_object(record)
    return json_id(fields, "id", "_id", "docid"), json_text(fields, "contents")


def document_of(record: bytes, fields: Mapping[str, str]) -> Document:
    """The fields of a JSON line named for id, title, headings and body; a title of null is empty.

    A name that `fields` lacks means that the documents have no such field.

    Raises:
        ValueError: a named field is missing or not text, a bad id, not JSON, or not UTF-8.
    """
    values = json_object(record)
    title, headings = (_text_or_null(values, fields.get(name)) for name in ("title", "headings"))
    return json_id(values, fields["id"]), title, headings, json_text(values, fields["body"])


def passage_of(record: bytes, fields: Mapping[str, str]) -> tuple[str, str]:
    """The id of a JSON line that is a passage, and its title, headings and body in one text.

    Null stands for an empty title or headings, and beside a title for an empty body too.

    Raises:
        ValueError: see `document_of`.
    """
    values = json_object(record)
    front = [_text_or_null(values, fields.get(name)) for name in ("title", "headings")]
    read_body = _text_or_null if "title" in fields else json_text
    return json_id(values, fields["id"]), joined(*front, read_body(values, fields["body"]))


def home_of(record: bytes, fields: Mapping[str, str]) -> tuple[str, str]:
    """The document that a passage is part of, and its spans there; "" if nothing says them.

    Raises:
        ValueError: see `document_of`; or spans of another form than `(0,75),(80,99)`.
    """
    values = json_object(record)
    name = fields.get("spans", "")
    spans = json_text(values, name) if values.get(name) is not None else ""
    if spans and not _SPANS.fullmatch(spans):
        raise ValueError(f'expected spans such as (0,75),(80,99) in "{name}", found {shown(spans)}')
    return json_id(values, fields["document"]), spans


def _text_or_null(values: dict[str, Any], field: str | None) -> str:
    if field is None or (field in values and values[field] is None):
        return ""
    return json_text(values, field)


class _Object(bytes):
    """An object that is no line, with nothing around it."""


class _Begins:
    """Where objects that are in no other one begin, in blocks that come one after the other."""

    def __init__(self) -> None:
        self.depth, self.in_text, self._escaped = 0, False, False

    def __call__(self, block: bytes) -> NDArray[np.intp]:
        """The position before each of them; -1 if one begins with the block."""
        before = []
        at, self._escaped = int(self._escaped), False
        while at < len(block):
            if self.in_text:
                at = _WITHIN_TEXT.match(block, at).end()  # type: ignore[union-attr]
                self._escaped = block[at : at + 1] == b"\\"  # the block ends behind it
                self.in_text = at == len(block) or self._escaped
                at += 1
                continue
            if (match := _AROUND.search(block, at)) is None:
                break
            mark, at = match[0], match.end()
            if mark == b'"':
                self.in_text = True
            elif mark == b"}":
                self.depth -= 1
            else:
                if not self.depth:
                    before.append(match.start() - 1)
                self.depth += 1
        return np.array(before, np.intp)


_WITHIN_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""All up to the quote that ends it, or to a backslash at the end."""
_AROUND = re.compile(rb'["{}]')
_WHITE = b" \t\r\n"
_HEAD_BYTES = 1 << 20
_CUT_OFF = "; the file seems to be cut off: copy it again"


def in_lines(path: Path) -> bool:
    """Whether each line of the file is an object, as far as its first line says."""
    with open_binary(path) as stream:
        return _in_lines(_head(stream))


def _head(stream: BinaryIO) -> bytes:
    head: bytes = stream.peek(_HEAD_BYTES)  # type: ignore[attr-defined]
    return head.removeprefix(BOM)


def _in_lines(head: bytes) -> bool:
    line, newline, _ = head.lstrip(_WHITE).partition(b"\n")
    begins = _Begins()
    begins(line)
    is_part = newline and begins.depth > 0 and not begins.in_text  # no text has a line's end in it
    return not is_part and not line.startswith(b"[")


def _count(stream: BinaryIO, name: str, every: int) -> Counted:
    if _in_lines(_head(stream)):
        return LINES.count(stream, name, every)
    counts = counted(stream, every, _Begins(), headers=1)  # what is in front of the first object
    if not counts.num_records:
        with open_binary(Path(name)) as again:  # an empty array, or what is no JSON at all
            next(_records(again, name=name, at=0, first=0, skip=0), None)
    return counts


def _records(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[bytes]:
    if first:
        stream.seek(0)
    head = _head(stream)
    if first:
        stream.seek(at)
    if _in_lines(head):
        yield from LINES.records(stream, name=name, at=at, first=first, skip=skip)
        return
    check_utf8_mark(name, head)
    in_array = head.lstrip(_WHITE).startswith(b"[")
    parts = _parts(stream, name)
    front, part = next(parts).removeprefix(BOM).translate(None, _WHITE), next(parts, None)
    if not first and front != (b"" if not in_array else b"[" if part is not None else b"[]"):
        text = shown(front[:80].decode(errors="replace"))
        cut_off = _CUT_OFF if front == b"[" else ""
        raise InputError(
            f"{name}: expected JSON objects or one array of them, found {text}{cut_off}"
        )
    while part is not None:
        following = next(parts, None)
        if not skip:
            yield _Object(_alone(part, in_array, following is None, name))
        skip, part = max(0, skip - 1), following


def _parts(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes in front of the first object, then each object with all bytes up to the next."""
    begins, pending = _Begins(), list[bytes]()
    for block in chunks(stream):
        start = 0
        for before in begins(block).tolist():
            yield b"".join([*pending, block[start : before + 1]])
            pending, start = [], before + 1
        pending.append(block[start:])
        if sum(map(len, pending)) > MAX_LINE_BYTES:
            raise InputError(
                f"{name}: an object longer than {MAX_LINE_BYTES:,} bytes; is there a quote or a "
                "brace that does not end?"
            )
    yield b"".join(pending)


def _alone(part: bytes, in_array: bool, is_last: bool, name: str) -> bytes:
    """The object without the comma or bracket behind it.

    Raises:
        InputError: it is not there.
    """
    text = part.rstrip(_WHITE)
    if not in_array:
        return text
    end = b"]" if is_last else b","
    if not text.endswith(end):
        behind = shown(text[-40:].decode(errors="replace"))
        cut_off = _CUT_OFF if is_last and _is_open(text) else ""
        raise InputError(
            f"{name}: not a JSON array: expected {end.decode()} behind {behind}{cut_off}"
        )
    return text.removesuffix(end).rstrip(_WHITE)


def _is_open(text: bytes) -> bool:
    """Whether more would be right behind it: an object that does not end, or only a comma."""
    begins = _Begins()
    begins(text)
    return begins.depth > 0 or text.removesuffix(b",").rstrip(_WHITE).endswith(b"}")


def _place(number: int, record: bytes) -> str:
    return f"object {number:,}" if isinstance(record, _Object) else LINES.place(number, record)


OBJECTS = RecordSplit(place=_place, count=_count, records=_records, replaced=LINES.replaced)
"""Objects in lines, over several lines, or in an array."""
