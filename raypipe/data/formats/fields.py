"""Fields of one record: ids, columns, JSON objects, text. Each raises ValueError with the cause."""

import json
import math
import re
from typing import Any

from raypipe.errors import MOST_SHOWN, shown
from raypipe.foreign import OWN_PASSAGE_ID, OWN_QUERY_ID, without_fractions

Document = tuple[str, str, str, str]
"""(document_id, title, headings, body), each as in the file; nothing is stripped."""


# Unicode white space, controls and the byte order mark: any of them would break a six-column run
# file, or a reader that calls split() on it.
_NOT_IN_AN_ID = re.compile("[\\s\x00-\x1f\x7f-\x9f\ufeff]")


_ID_COLUMNS = frozenset(
    cased.encode()
    for name in (*OWN_PASSAGE_ID, *OWN_QUERY_ID)
    for cased in (name, name.upper(), name.capitalize())
)
_NAMES = re.compile(rb"[A-Za-z_][\w-]*(\s+[A-Za-z_][\w-]*){0,2}\s*")
"""Up to three words: beside the name of an id column, names of columns and no text of a passage."""
MAX_ID_BYTES = 32_000
"""A Lucene index, in which an id is a term, takes 32,766 bytes; passages of documents add `#N`."""


def checked_id(value: str, *, field: str = "id") -> str:
    """The id itself, once checked.

    Raises:
        ValueError: empty, longer than `MAX_ID_BYTES`, or with white space or control characters.
    """
    if not value:
        raise ValueError(f"empty {field}")
    if (
        len(value) * 4 > MAX_ID_BYTES
        and (num := len(value.encode(errors="replace"))) > MAX_ID_BYTES
    ):
        raise ValueError(
            f"expected at most {MAX_ID_BYTES:,} bytes in the {field}, found {num:,}: {shown(value)}"
        )
    if _NOT_IN_AN_ID.search(value):
        raise ValueError(f"white space or a control character in the {field} {shown(value)}")
    return value


def titled(*front: str, text: str) -> str:
    """A passage's text, with a blank after what is in front of it; empty ones are left out."""
    return " ".join([*filter(None, front), text])


def joined(*texts: str) -> str:
    """The texts with a blank between them; empty ones are left out."""
    return " ".join(filter(None, texts))


def document_before(delimiter: str, passage_id: str) -> str:
    """The id of a passage's document: what is in front of the delimiter.

    Raises:
        ValueError: the delimiter is not there, there twice, or nothing is in front of it.
    """
    document_id, _, rest = passage_id.partition(delimiter)
    if not document_id or not rest or delimiter in rest:
        mark = shown(delimiter)
        raise ValueError(
            f"expected an id with {mark} once, between a document's id and what tells its passages "
            f"apart, found {shown(passage_id)}; `fields` can name a field with the document's id"
        )
    return document_id


def id_and_text(record: bytes) -> tuple[str, str]:
    """Id and text of `id TAB text`, split at the first tab; the text is not stripped.

    Raises:
        ValueError: no tab, a bad id, a header, or bytes that are not UTF-8 (UnicodeDecodeError).
    """
    head, tab, tail = record.partition(b"\t")
    if not record.strip():
        raise ValueError("expected id TAB text, found an empty line; delete it")
    if not tab:
        raise ValueError(f"expected id TAB text, found no tab in {shown(_text(record))}")
    if head in _ID_COLUMNS and _NAMES.fullmatch(tail):
        raise ValueError(
            f"expected id TAB text, found a header, {shown(_text(record))}; delete the line, or "
            "write the file as CSV with names such as id and text"
        )
    return checked_id(head.decode()), tail.decode()


def json_object(record: bytes) -> dict[str, Any]:
    """The record as a JSON object.

    Raises:
        ValueError: not JSON, not an object, or bytes that are not UTF-8 (UnicodeDecodeError).
    """
    text = record.decode()  # json.loads on bytes guesses UTF-16 where it meets a NUL
    if not text.strip():
        raise ValueError("expected a JSON object, found an empty line; delete it")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON ({error}): {shown(text)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {shown(value)}")
    return value


def json_id(record: dict[str, Any], *fields: str) -> str:
    """The first of the fields that exists, as a string; an integer is written in decimal.

    Raises:
        ValueError: none of the fields exists, another type, or a bad id.
    """
    for field in fields:
        if field in record:
            value = record[field]
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if isinstance(value, float) and math.isfinite(value):
                raise ValueError(
                    f'expected a string or a whole number in "{field}", found {value}; '
                    f"{without_fractions(field)}"
                )
            if not isinstance(value, str):
                raise _no_string(field, value)
            return checked_id(value, field=field)
    raise _missing(record, *fields)


def json_text(record: dict[str, Any], field: str, *others: str) -> str:
    """The field's unchanged string.

    Args:
        record: an object.
        field: its field.
        others: names that the field could have too, for the message.

    Raises:
        ValueError: no such field, or not a string.
    """
    if field not in record:
        raise _missing(record, field, *others)
    value = record[field]
    if not isinstance(value, str):
        raise _no_string(field, value)
    return value


def _no_string(field: str, value: object) -> ValueError:
    text = f'expected a string in "{field}", found {shown(value)}'
    if isinstance(value, float) and not math.isfinite(value):
        text += ", which is no JSON (pandas writes NaN for what is missing): write null or a text"
    return ValueError(text)


def _missing(record: dict[str, Any], *fields: str) -> ValueError:
    expected = " or ".join(f'"{field}"' for field in fields)
    names = ", ".join(shown(key) for key in list(record)[:8]) or "no fields"
    return ValueError(f"expected a field {expected}, found {names}")


def _text(record: bytes) -> str:
    return record[: 4 * MOST_SHOWN].decode(errors="replace")


def without_surrogates(text: str) -> str:
    r"""The text with each lone surrogate (a JSON "\ud800") replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def document_v1(record: bytes) -> Document:
    """A line of MS MARCO's documents (v1): docid, url, title, body; further tabs are the body's.

    It has no headings.

    Raises:
        ValueError: fewer than four columns, a bad id, or not UTF-8.
    """
    document_id, _, title, body = _four_columns(record, "docid, url, title, body")
    return checked_id(document_id.decode(), field="docid"), title.decode(), "", body.decode()


def parse_candidate(record: bytes) -> tuple[str, str, str]:
    """Query id, passage id and query text of MS MARCO's `top1000`; further tabs are the passage's.

    The official files are unordered, and some queries have fewer than 1000 passages.

    Raises:
        ValueError: fewer than four columns, a bad id, or not UTF-8.
    """
    columns = _four_columns(record, "query id, passage id, query, passage")
    query_id = checked_id(columns[0].decode(), field="query id")
    return query_id, checked_id(columns[1].decode(), field="passage id"), columns[2].decode()


def _four_columns(record: bytes, names: str) -> list[bytes]:
    columns = record.split(b"\t", 3)
    if len(columns) < 4:
        raise ValueError(
            f"expected four tab-separated columns: {names}; found {len(columns)} in "
            f"{shown(record[:80].decode(errors='replace'))}"
        )
    return columns
