"""Dotted overrides, `stages.bm25.depth=10`, applied to a recipe before it is checked."""

import re
from collections.abc import Sequence
from typing import Any

from raypipe.config.yaml.document import Document, Key, Problem, dotted, parse_yaml
from raypipe.config.yaml.words import did_you_mean, listed, shown
from raypipe.errors import InputError

_NAMED = (("queries",), ("models",), ("stages",))
"""Sections whose keys the recipe's author chooses: an override changes an entry but adds none."""


MAX_SHOWN = 200
"""Most characters of an override in a message; each of its problems repeats it."""


def apply_overrides(document: Document, overrides: Sequence[str]) -> list[str]:
    """Set each KEY=VALUE in place, in order; returns the problems, each with its override.

    VALUE is YAML, so `[a, b]`, `true` and `10` have their types, and an empty value is null.
    Entries of a list are addressed by their index from 0. Unknown keys are found when the recipe is
    checked.
    """
    problems = []
    for text in overrides:
        try:
            _apply(document, text)
        except InputError as error:
            problems += error.problems
    return problems


def parse_override(text: str) -> tuple[Key, Document]:
    """The key and the value of KEY=VALUE.

    Raises:
        InputError: it has no key, or its value is not YAML.
    """
    origin = _origin(text)
    name, equals, value_text = text.partition("=")
    key = tuple(name.strip().split("."))
    if not equals or not all(key):
        raise InputError(f"{origin}: expected KEY=VALUE, such as stages.bm25.depth=10")
    return key, parse_yaml(value_text, origin=lambda line: origin)


def _apply(document: Document, text: str) -> None:
    key, value = parse_override(text)
    _set(document, key, value, _origin(text))


def _origin(text: str) -> str:
    return f"override {text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '...'}"


def _set(document: Document, parts: Key, value: Document, origin: str) -> None:
    """Walk to the last part's parent, creating missing mappings, and set the value."""
    parent: Any = document.data
    key: Key = ()
    for part in map(str, parts[:-1]):
        step = _step(parent, key, part, origin)
        if _absent(parent, step):
            parent[step] = {}
            document.origins[(*key, step)] = origin
        parent, key = parent[step], (*key, step)
    step = _step(parent, key, str(parts[-1]), origin)
    parent[step], key = value.data, (*key, step)
    kept = {k: v for k, v in document.origins.items() if k[: len(key)] != key}
    document.origins = kept | {(*key, *k): v for k, v in value.origins.items()}
    document.problems += [Problem((*key, *k), problem) for k, problem in value.problems]


def _absent(parent: Any, step: str | int) -> bool:
    return isinstance(parent, dict) and parent.get(str(step)) is None


def _step(parent: Any, key: Key, part: str, origin: str) -> str | int:
    """The part as a key of the parent: a name, or the index of a list.

    Raises:
        InputError: the parent has nothing of that name.
    """
    where = f"{origin}: {dotted((*key, part))}"
    if isinstance(parent, list):
        if re.fullmatch(r"[0-9]{1,6}", part) and int(part) < len(parent):
            return int(part)
        raise InputError(f"{where}: expected an index below {len(parent)}, found {part!r}")
    if not isinstance(parent, dict):
        raise InputError(
            f"{where}: {dotted(key) or 'the recipe'} is {shown(parent)}, which has no keys"
        )
    if key in _NAMED and part not in parent:
        raise InputError(
            f"{where}: no such name{did_you_mean(part, parent)} {dotted(key)} has {listed(parent)}"
        )
    return part
