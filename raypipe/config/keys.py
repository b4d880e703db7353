"""The keys of recipes, from their types: what `raypipe recipes --keys` prints.

The text of a key is the docstring below its field, or that of the section that it opens.
"""

import inspect
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from raypipe.config.fields import Section, Source
from raypipe.config.json_schema import texts_of
from raypipe.config.phases import Own
from raypipe.config.recipe import WrittenRecipe
from raypipe.config.training import Training
from raypipe.config.words import did_you_mean, listed
from raypipe.errors import InputError
from raypipe.kinds.registry import KINDS
from raypipe.markdown import cell


class KeyRow(NamedTuple):
    """A key of a recipe."""

    key: str
    """With dots: `queries.NAME.file`."""
    values: str
    default: str
    text: str


def rows(section: type[Section], prefix: str = "") -> Iterator[KeyRow]:
    """Every key below a section, in the order of its fields; stages are left to their kinds."""
    said = texts_of(section)
    for name, field in section.model_fields.items():
        key = prefix + (field.alias or name)
        inner, named = _opened(field.annotation)
        if inner is None:
            yield KeyRow(key, _values(field.annotation), _default(field), said.get(name, ""))
            continue
        own = " ".join((inspect.getdoc(inner) or "").split("\n\n")[0].split())
        key += ".NAME" if named else ""
        must = "must be set" if field.is_required() else "-"
        yield KeyRow(key, "section", must, said.get(name) or own)
        yield from rows(inner, key + ".")


def _opened(annotation: Any) -> tuple[type[Section] | None, bool]:
    """The section that a key opens, and whether one for each name."""
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, Section):
            return (None, False) if member in KINDS.values() else (member, False)
        if get_origin(member) is dict:
            return _opened(get_args(member)[1])[0], True
    return None, False


def _members(annotation: Any) -> list[Any]:
    """The types that a value may have, without None and without what is only checked."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [each for one in get_args(annotation) for each in _members(one)]
    return [] if annotation is NoneType else [annotation]


def _values(annotation: Any) -> str:
    """The values that a key may have."""
    words = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}
    found = []
    for member in _members(annotation):
        if get_origin(member) is Literal:
            found += [f"`{each}`" for each in get_args(member)]
        elif get_origin(member) is tuple:
            found.append(f"list: {_values(get_args(member)[0])}")
        elif get_origin(member) is dict:
            found.append(f"mapping: {_values(get_args(member)[1])}")
        else:
            found.append("any plain value" if member is Any else words.get(member, "stage"))
    return ", ".join(dict.fromkeys(found))


def _default(field: FieldInfo) -> str:
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


def table(found: Iterator[KeyRow]) -> str:
    """The rows in Markdown."""
    lines = ["| key | values | default | |", "|---|---|---|---|"]
    lines += [f"| `{r.key}` | {r.values} | {r.default} | {cell(r.text)} |" for r in found]
    return "\n".join(lines) + "\n"


def keys_of(what: str | None = None) -> str:
    """The keys of a pipeline recipe, of one kind of stage, or of a training recipe, as Markdown.

    Raises:
        InputError: no such kind.
    """
    if what == "train":
        phases = "A phase of `phases` has these keys, some of those above, and:\n"
        return "\n".join([table(rows(Training)), phases, table(rows(Own, "phases[]."))])
    if what is not None and what not in KINDS:
        hint = did_you_mean(what, [*KINDS, "train"])
        raise InputError(f"--keys: no stage {what!r}{hint} there are: {listed(KINDS)} and train")
    parts = [] if what is not None else [table(rows(WrittenRecipe))]
    for do, kind in sorted(KINDS.items()):
        if what in (None, do):
            own = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
            parts += [f"A stage with `do: {do}`. {own}\n", table(rows(kind, "stages.NAME."))]
    return "\n".join(parts)
