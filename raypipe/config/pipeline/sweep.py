"""The points of a sweep: overrides that give a list where the recipe takes one value."""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from raypipe.config.load import document_of, load_recipe
from raypipe.config.recipe import Recipe, WrittenRecipe
from raypipe.config.structure import structural_problems
from raypipe.config.yaml import (
    Document,
    Key,
    apply_overrides,
    dotted,
    expand,
    parse_override,
    value_text,
)
from raypipe.errors import InputError

MAX_POINTS = 100
"""Most points of a sweep; each is a workspace of its own, and a product of lists grows quickly."""
SHARED = (("stores",), ("format",), ("name",))
"""Keys that all points have in common."""


@dataclass(frozen=True, slots=True)
class Point:
    """One recipe of a sweep."""

    values: Mapping[str, Any]
    """Dotted key -> this point's value, in the order of the overrides."""
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class _Swept:
    """An override that gives several values."""

    key: Key
    values: Sequence[Any]


def sweep_points(
    recipe: str | Mapping[str, Any],
    *,
    overrides: Sequence[str],
    env: Mapping[str, str] | None = None,
    base: Path | None = None,
    source: str = "recipe",
) -> list[Point]:
    """The checked recipe of every point, the last key's values changing fastest.

    Empty if no override gives a list where the recipe takes one value. A list that the recipe
    takes as it is, such as evaluate.measures, is a setting of every point.

    Args:
        recipe: text in YAML, or data; see `load_recipe`, as for the other arguments.

    Raises:
        InputError: every problem of every point, or more than `MAX_POINTS` points.
    """
    swept = _swept(recipe, overrides, env or {}, source)
    if not swept:
        return []
    problems = [*_problems(swept, overrides)]
    number = math.prod(len(each.values) for each in swept.values())
    if number > MAX_POINTS:
        sizes = " x ".join(str(len(each.values)) for each in swept.values())
        problems.append(
            f"a sweep of {sizes} = {number:,} points: expected at most {MAX_POINTS}; give fewer "
            "values, or sweep the keys one after the other"
        )
    if problems:
        raise InputError(problems)
    points = []
    for values in product(*(each.values for each in swept.values())):
        own = dict(zip(swept, values, strict=True))
        told = [
            f"{dotted(swept[place].key)}={value_text(own[place])}" if place in own else override
            for place, override in enumerate(overrides)
        ]
        named = {dotted(swept[place].key): value for place, value in own.items()}
        try:
            found = load_recipe(recipe, overrides=told, env=env, base=base, source=source)
            points.append(Point(named, found))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return points


def _swept(
    recipe: str | Mapping[str, Any],
    overrides: Sequence[str],
    env: Mapping[str, str],
    source: str,
) -> dict[int, _Swept]:
    """By their places, the overrides with a list that is wrong as a whole, but not each value."""
    found: dict[int, _Swept] = {}
    for place, override in enumerate(overrides):
        each = _listed(override)
        if each is None:
            continue
        document = document_of(recipe, source)
        apply_overrides(document, overrides[: place + 1])
        if _within({*_wrong(document, env)}, each.key) and any(
            _fits(document, each.key, value, env) for value in each.values
        ):
            found[place] = each
    return found


def _listed(override: str) -> _Swept | None:
    try:
        key, value = parse_override(override)
    except InputError:
        return None  # told when the recipe is loaded
    return _Swept(key, value.data) if isinstance(value.data, list) else None


def _fits(document: Document, key: Key, value: Any, env: Mapping[str, str]) -> bool:
    """Whether the recipe takes this value at the key, whatever is wrong elsewhere."""
    tried = deepcopy(document)
    refused = apply_overrides(tried, [f"{dotted(key)}={value_text(value)}"])
    return not refused and not _within({*_wrong(tried, env)}, key)


def _wrong(document: Document, env: Mapping[str, str]) -> Iterator[Key]:
    """The keys of values of another type than the recipe takes, and of unknown keys."""
    tried = deepcopy(document)
    expand(tried, env)
    try:
        WrittenRecipe.model_validate(tried.data)
    except ValidationError as error:
        yield from (
            problem.key for problem in structural_problems(error, tried.data, WrittenRecipe)
        )


def _within(keys: set[Key], key: Key) -> bool:
    return any(_texts(each)[: len(key)] == _texts(key) for each in keys)


def _texts(key: Key) -> tuple[str, ...]:
    return tuple(map(str, key))


def _problems(swept: Mapping[int, _Swept], overrides: Sequence[str]) -> Iterator[str]:
    """What is wrong with the lists themselves."""
    for place, each in swept.items():
        where = f"override {dotted(each.key)}"
        if each.key in SHARED:
            yield f"{where}: all points of a sweep have one; give one value"
        texts = [value_text(value) for value in each.values]
        for text in dict.fromkeys(text for text in texts if texts.count(text) > 1):
            yield f"{where}: {text} is given twice; keep one of them"
        for other, override in enumerate(overrides):
            key = tuple(override.partition("=")[0].strip().split("."))
            short = min(len(key), len(each.key))
            if other > place and key[:short] == each.key[:short]:
                yield f"{where}: {dotted(key)} is given too; keep one of them"
