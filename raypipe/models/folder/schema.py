"""Schemas of a model folder's JSON files, and the problems of a file that does not fit one.

A key is `Annotated` with `Field(description=...)`: the words for what is expected there.
"""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

MAX_CHARACTERS = 10_000
"""A longer prefix leaves no room for a text, and is put before every passage in memory."""
LONGEST_NAME = 255
"""Bytes of a file's or folder's name, on the usual file systems."""
SHOWN = 60
"""Characters of a wrong value in an error."""


def one_of(*known: str, expected: str | None = None) -> Any:
    """The field of a word among these, the last of which may be null.

    `expected` is said of it in the place of all the words.
    """
    *others, last = known
    choices = "|".join(re.escape(word) for word in known if word != "null")
    listed = f"{', '.join(others)} or {last}" if others else last
    return Field(strict=True, pattern=f"^(?:{choices})$", description=expected or listed)


def _file_name(value: str) -> str:
    if "\0" in value or len(value.encode()) > LONGEST_NAME:
        raise ValueError("no file system has such a name")
    return value


Text = Annotated[str, Field(strict=True, description="text")]
Words = Annotated[str, Field(strict=True, max_length=MAX_CHARACTERS, description="text")]
FileName = Annotated[Text, AfterValidator(_file_name)]
"""A name that a file system can look for."""
Flag = Annotated[bool, Field(strict=True, description="true or false")]
Segment = Annotated[int, Field(strict=True, ge=0, description="a segment id, from 0")]
Pieces = Annotated[int, Field(strict=True, ge=1, description="a count of word pieces")]
MaybePieces = Annotated[
    int | None, Field(strict=True, ge=1, description="a count of word pieces or null")
]


def schema_problems(schema: type, body: Mapping[str, Any], *, missing: str) -> list[str]:
    """One problem for each key of a JSON object that does not fit the schema's.

    Args:
        schema: a dataclass or a pydantic model.
        body: the object.
        missing: the remedy for a key that is missing.
    """
    halves = [name for name in body if re.search("[\ud800-\udfff]", name)]
    if halves:  # pydantic cannot say which key has half a character
        return [f"{name!r}: expected a key without half a character" for name in halves]
    try:
        _adapter(schema).validate_python({**body})
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        kinds = {str(each["loc"][0]): each["type"] for each in reversed(found)}
        return [_problem(schema, body, name, kinds[name], missing) for name in reversed(kinds)]
    return []


@cache
def _adapter(schema: type) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def _problem(schema: type, body: Mapping[str, Any], name: str, kind: str, missing: str) -> str:
    hints = get_type_hints(schema, include_extras=True)
    known = {key: hint for key, hint in hints.items() if hasattr(hint, "__metadata__")}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{name}: {hint}expected a JSON object with {', '.join(known)}"
    if kind == "string_too_long":
        return f"{name}: expected at most {MAX_CHARACTERS:,} characters, found {len(body[name]):,}"
    fields = [each for each in known[name].__metadata__ if hasattr(each, "description")]
    field = fields[-1]  # the outermost one
    if name not in body:
        return f"{name}: expected {field.description}, found nothing; {missing}"
    shown = repr(body[name])
    shown = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
    examples = [json.dumps(example) for example in field.examples or ()]
    remedy = f"; as in {examples[0]}, with quotes also in YAML" if examples else ""
    return f"{name}: expected {field.description}, found {shown}{remedy}"
