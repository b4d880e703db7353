"""JSON lines: passages of any names, of BEIR and Pyserini, and documents whose fields are named."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from raypipe import foreign
from raypipe.data.formats.fields import json_id, json_object, json_text, titled
from raypipe.errors import shown

Document = tuple[str, str, str, str]
"""(document_id, title, headings, body), each as in the file; nothing is stripped."""
_SPANS = re.compile(r"\([0-9]{1,18},[0-9]{1,18}\)(,\([0-9]{1,18},[0-9]{1,18}\))*")


def parse_any(record: bytes) -> tuple[str, str]:
    """The id and the text, under any name, behind the title and a blank if there is a title.

    Raises:
        ValueError: not such an object, a bad id, or not UTF-8.
    """
    fields = json_object(record)
    passage_id = json_id(fields, *names_of(fields, foreign.PASSAGES, "passage_id"))
    text = names_of(fields, foreign.PASSAGES, "text")[0]
    named = foreign.columns_of(fields, foreign.PASSAGES).get("title")
    return passage_id, _titled_text(fields, text, named)


def names_of(
    fields: Collection[str], wanted: Mapping[str, Sequence[str]], own: str
) -> tuple[str, ...]:
    """The field of that meaning; if there is none, all that it could be, for the message."""
    columns = foreign.columns_of(fields, wanted)
    return (columns[own],) if own in columns else tuple(wanted[own])


def parse_beir(record: bytes) -> tuple[str, str]:
    """`_id`, and title, blank, text; only the text if the title is missing or empty."""
    fields = json_object(record)
    return json_id(fields, "_id"), _titled_text(fields, "text", "title")


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
    found = json_object(record)
    title, headings = (_text_or_null(found, fields.get(name)) for name in ("title", "headings"))
    return json_id(found, fields["id"]), title, headings, json_text(found, fields["body"])


def passage_of(record: bytes, fields: Mapping[str, str]) -> tuple[str, str]:
    """The id and the body of a JSON line that is a passage; see `document_of`."""
    found = json_object(record)
    return json_id(found, fields["id"]), json_text(found, fields["body"])


def home_of(record: bytes, fields: Mapping[str, str]) -> tuple[str, str]:
    """The document that a passage is part of, and its spans there; "" if nothing says them.

    Raises:
        ValueError: see `document_of`; or spans of another form than `(0,75),(80,99)`.
    """
    found = json_object(record)
    name = fields.get("spans", "")
    spans = json_text(found, name) if found.get(name) is not None else ""
    if spans and not _SPANS.fullmatch(spans):
        raise ValueError(f'expected spans such as (0,75),(80,99) in "{name}", found {shown(spans)}')
    return json_id(found, fields["document"]), spans


def _titled_text(fields: dict[str, Any], text: str, title: str | None) -> str:
    """The text behind the title, where there is one."""
    body = json_text(fields, text)
    if title is None or fields.get(title) is None:
        return body
    return titled(json_text(fields, title), body)


def _text_or_null(found: dict[str, Any], field: str | None) -> str:
    if field is None or (field in found and found[field] is None):
        return ""
    return json_text(found, field)
