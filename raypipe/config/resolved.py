"""A recipe as YAML with its defaults written out, each with its source."""

from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from raypipe.config.fields import Section, Source
from raypipe.config.words import in_words
from raypipe.config.yaml import MAX_BYTES, escaped, expand, parse_yaml
from raypipe.errors import InputError
from raypipe.regular import check_regular

HEADER = "# Resolved: overrides applied, variables expanded, defaults filled in with their source."


def resolved_yaml(recipe: Section) -> str:
    """The recipe as text: equal recipes give equal text, and loading the text gives the recipe.

    Keys are in the order of the models, stages in that of the recipe. A comment marks each value
    that equals the default, written or filled in, and gives its source. Settings that are None are
    left out.
    """
    return "\n".join([HEADER, *section_lines(recipe)]) + "\n"


def section_lines(
    section: Section, *, indent: str = "", without: Collection[str] = ()
) -> Iterator[str]:
    """The lines of a section's keys, but for those in `without`; see `resolved_yaml`."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if name in without or value is None:
            continue
        if not (value == field.default and value in ((), {})):
            yield from _entry(
                field.alias or name, value, indent=indent, comment=_comment(section, field, value)
            )


def is_resolved(path: Path) -> bool:
    """Whether a file begins as `resolved_yaml` does; a user's own recipe does not."""
    try:
        check_regular(path, "a recipe")
        with path.open("rb") as file:
            return file.read(len(HEADER)) == HEADER.encode()
    except (InputError, OSError):
        return False


def read_resolved(path: Path) -> dict[str, Any]:
    """The data of the recipe that `resolved_yaml` wrote to a file, with all its defaults.

    Raises:
        InputError: no such file, or what it holds is no recipe.
    """
    remedy = "run its recipe again with the same --out, which writes this file anew"
    check_regular(path, "a recipe")
    try:
        text = path.read_bytes()[: MAX_BYTES + 1].decode()
        document = parse_yaml(text, origin=lambda line: f"{path}: line {line}")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; {remedy}") from error
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a resolved recipe, found: {error}; {remedy}") from error
    problems = document.problems + expand(document, {})
    if problems:
        raise InputError([f"{document.describe(problem)}; {remedy}" for problem in problems])
    if not isinstance(document.data, dict):
        raise InputError(f"{path}: expected a recipe, found {in_words(document.data)}; {remedy}")
    found = document.data.get("stores")
    if not isinstance(found, str | None):
        raise InputError(f"{path}: stores: expected a place, found {in_words(found)}; {remedy}")
    return document.data


def _entry(name: str, value: Any, *, indent: str, comment: str = "") -> Iterator[str]:
    """A key and its value: sections and mappings in block style, lists and scalars on one line."""
    if isinstance(value, Section):
        yield f"{indent}{_inline(name)}:"
        yield from section_lines(value, indent=indent + "  ")
    elif isinstance(value, dict):
        yield f"{indent}{_inline(name)}:"
        for inner, part in value.items():
            yield from _entry(inner, part, indent=indent + "  ")
    else:
        yield f"{indent}{_inline(name)}: {_inline(escaped(value))}{comment}"


def _inline(value: Any) -> str:
    """The value in flow style, on one line; dumped in a list, to avoid an end-of-document mark."""
    return _inline_before(value) if isinstance(value, str | int) else _inlined(value)


def _inlined(value: Any) -> str:
    text = _dump(value)
    return text if len(text.splitlines()) == 1 else _dump(value, style='"')


_inline_before = lru_cache(1000, typed=True)(_inlined)
"""The same of a word met again: an invocation writes its recipe several times."""


def _dump(value: Any, *, style: str | None = None) -> str:
    text = yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, width=2**31, allow_unicode=True
    )
    return text.strip()[1:-1]


def _comment(section: Section, field: FieldInfo, value: Any) -> str:
    for source in field.metadata:
        if not isinstance(source, Source):
            continue
        known = source.value(section) if callable(source.value) else source.value
        if value == (field.default if known is None else known):
            return f"  # {'default; ' if source.default else ''}{source.text}"
    return ""
