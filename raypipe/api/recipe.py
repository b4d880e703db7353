"""A recipe loaded from Python."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe import config
from raypipe.errors import InputError

Overrides = Mapping[str, Any] | Sequence[str]
"""{"stages.bm25.depth": 100}, or, as on the command line, ["stages.bm25.depth=100"]."""


class Recipe(config.Recipe):
    """A checked recipe: its keys are attributes, paths absolute, defaults filled in; frozen."""

    @classmethod
    def load(cls, recipe: str | Path | Mapping[str, Any], overrides: Overrides = ()) -> "Recipe":
        """The recipe from a YAML file, a packaged name (`raypipe recipes`), or a dictionary.

        `${VAR}` in a file or an override is read from the environment; relative paths are
        relative to the file, or to the current folder.

        Args:
            recipe: a path, a name, or a dictionary of a recipe's keys.
            overrides: see `Overrides`.

        Raises:
            InputError: every problem found, each with file, line, dotted key and remedy.
        """
        texts = texts_of(overrides)
        if isinstance(recipe, Mapping):
            found = config.load_recipe(plain_recipe(recipe), overrides=texts, env=os.environ)
        else:
            found = config.named_recipe(str(recipe), overrides=texts, env=os.environ)
        values = {name: getattr(found, name) for name in type(found).model_fields}
        return cls.model_construct(found.model_fields_set, **values)


def inline_by_default(recipe: config.Recipe) -> config.Recipe:
    """The recipe, set to run in this process without Ray unless it names a backend."""
    resources = recipe.resources
    if "backend" in resources.model_fields_set:
        return recipe
    inline = resources.model_copy(update={"backend": "inline"})
    return recipe.model_copy(update={"resources": inline})


def plain_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe given as a dictionary, with plain values only."""
    found: dict[str, Any] = json.loads(json.dumps(dict(recipe), default=_plain))
    return found


def texts_of(overrides: Overrides) -> list[str]:
    """The overrides as on the command line.

    Raises:
        InputError: they are neither a dictionary nor a list of texts.
    """
    if isinstance(overrides, Mapping):
        return [f"{key}={_value(value)}" for key, value in overrides.items()]
    texts = [overrides] if isinstance(overrides, str) else overrides
    if not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise InputError(
            "overrides: expected a dictionary such as {'stages.bm25.depth': 100}, or a list such "
            f"as ['stages.bm25.depth=100']; found {overrides!r}"
        )
    return list(texts)


def _value(value: Any) -> str:
    """The value as JSON, which is also YAML; paths become texts, tuples lists."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's, a mapping as a dictionary, anything else as text."""
    if hasattr(value, "item"):
        return value.item()
    return dict(value) if isinstance(value, Mapping) else str(value)
