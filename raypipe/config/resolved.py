"""A recipe as YAML with its defaults written out, each with its source."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from raypipe.config.fields import Section, Source
from raypipe.config.yaml import MAX_BYTES, escaped, expand, in_words, parse_yaml
from raypipe.errors import InputError, shown
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
    stores = document.data.get("stores")
    if not isinstance(stores, str | None):
        raise InputError(f"{path}: stores: expected a place, found {in_words(stores)}; {remedy}")
    return document.data


@dataclass(frozen=True, slots=True)
class ChangedKey:
    """A key of a recipe with its value before and now; None where there is none."""

    key: str
    """With dots: `models.minilm.settings.passage_limit`."""
    old: Any
    new: Any

    def __str__(self) -> str:
        """`models.minilm.settings.passage_limit 254 -> 64`."""
        both = (self.old, self.new)
        old, new = ("not set" if value is None else shown(value) for value in both)
        return f"{self.key} {old} -> {new}"

    def decides(self) -> bool:
        """Whether it may change a stage's settings, and not content, places or resources alone."""
        section, last = self.key.partition(".")[0], self.key.rpartition(".")[2]
        if section == "resources":
            return last == "precision"
        return section in ("collection", "queries", "models", "stages") and last not in _CONTENT


_CONTENT = ("input", "file", "qrels")


def changed_keys(path: Path, recipe: Section) -> list[ChangedKey]:
    """The keys in which a recipe differs from the one that `resolved_yaml` wrote to a file.

    Raises:
        InputError: no such file, or what it holds is no recipe.
    """
    document = parse_yaml(resolved_yaml(recipe), origin=str)
    expand(document, {})
    old, new = dict(_leaves(read_resolved(path))), dict(_leaves(document.data))
    return [
        ChangedKey(key, old.get(key), new.get(key))
        for key in dict.fromkeys([*new, *old])
        if old.get(key) != new.get(key)
    ]


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


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
        default = source.value(section) if callable(source.value) else source.value
        if value == (field.default if default is None else default):
            return f"  # {'default; ' if source.default else ''}{source.text}"
    return ""
