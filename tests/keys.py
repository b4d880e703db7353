"""Writes docs/keys.md from the types of the recipes: `python tests/keys.py`.

What the page says of a key is the docstring below its field, or that of the section that it opens.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from raypipe.config.fields import Section, Source
from raypipe.config.json_schema import texts_of
from raypipe.config.phases import Own
from raypipe.config.recipe import WrittenRecipe
from raypipe.config.stages import KINDS
from raypipe.config.training import Training

PAGE = Path(__file__).parent.parent / "docs" / "keys.md"
HEADER = """# The keys of recipes

Every key that a recipe may have, with its default. [commands.md](commands.md) says how they are
used, and `raypipe recipes NAME` prints a recipe. NAME stands for a name that you choose. A default
of - is none: a key without one has no effect where it is not set, unless its line says what None
means. The resolved recipe in a workspace's recipe.yaml says where each default comes from.

This page is written from the recipes' own types: run `python tests/keys.py` after you change one.
"""
PHASES = """
Keys of `phases`, a list of trainings ([phases.md](phases.md)). A phase has these and the keys
above, except those that are said once: `format`, `name`, `collections`, `guard`, `resources` and
`stores`.
"""


class Row(NamedTuple):
    """A key of a recipe."""

    key: str
    """With dots: `queries.NAME.file`."""
    values: str
    default: str
    text: str


def rows(section: type[Section], prefix: str = "") -> Iterator[Row]:
    """Every key below a section, in the order of its fields; stages are left to their kinds."""
    said = texts_of(section)
    for name, field in section.model_fields.items():
        key = prefix + (field.alias or name)
        inner, named = opened(field.annotation)
        if inner is None:
            yield Row(key, values(field.annotation), default(field), said.get(name, ""))
            continue
        own = " ".join((inspect.getdoc(inner) or "").split("\n\n")[0].split())
        key += ".NAME" if named else ""
        must = "must be set" if field.is_required() else "-"
        yield Row(key, "section", must, said.get(name) or own)
        yield from rows(inner, key + ".")


def opened(annotation: Any) -> tuple[type[Section] | None, bool]:
    """The section that a key opens, and whether one for each name."""
    for member in members(annotation):
        if isinstance(member, type) and issubclass(member, Section):
            return (None, False) if member in KINDS.values() else (member, False)
        if get_origin(member) is dict:
            return opened(get_args(member)[1])[0], True
    return None, False


def members(annotation: Any) -> list[Any]:
    """The types that a value may have, without None and without what is only checked."""
    if get_origin(annotation) is Annotated:
        return members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [each for one in get_args(annotation) for each in members(one)]
    return [] if annotation is NoneType else [annotation]


def values(annotation: Any) -> str:
    """The values that a key may have."""
    words = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}
    found = []
    for member in members(annotation):
        if get_origin(member) is Literal:
            found += [f"`{each}`" for each in get_args(member)]
        elif get_origin(member) is tuple:
            found.append(f"list: {values(get_args(member)[0])}")
        elif get_origin(member) is dict:
            found.append(f"mapping: {values(get_args(member)[1])}")
        else:
            found.append("any plain value" if member is Any else words.get(member, "stage"))
    return ", ".join(dict.fromkeys(found))


def default(field: FieldInfo) -> str:
    """The value of a key that is not set."""
    if field.is_required():
        return "must be set"
    value = field.default
    if value is None:
        sources = [each for each in field.metadata if isinstance(each, Source) and each.default]
        value = next((each.value for each in sources if not callable(each.value)), None)
    if value is None or value in ((), {}):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def table(found: Iterator[Row]) -> str:
    """The rows in Markdown."""
    lines = ["| key | values | default | |", "|---|---|---|---|"]
    for row in found:
        text = row.text.replace("|", "\\|")
        lines.append(f"| `{row.key}` | {row.values} | {row.default} | {text} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    parts = [HEADER, "## raypipe pipeline\n", table(rows(WrittenRecipe))]
    for do, kind in sorted(KINDS.items()):
        own = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
        parts += [f"A stage with `do: {do}`. {own}\n", table(rows(kind, "stages.NAME."))]
    parts += ["## raypipe train\n", table(rows(Training)), PHASES.lstrip("\n")]
    parts.append(table(rows(Own, "phases[].")))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
