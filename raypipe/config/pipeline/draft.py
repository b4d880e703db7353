"""A recipe of which some parts may be wrong: the sound ones as objects, the others as names.

The rules that tie parts together run on it, so that one bad value hides no other problem.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from raypipe.config.pipeline.recipe import Collection, Model, QuerySet
from raypipe.config.pipeline.stage_kinds import PAIRS_KIND, Stage
from raypipe.config.yaml.document import Key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts in the order of the recipe; None stands for one that is missing or wrong."""

    collection: Collection | None
    queries: Mapping[str, QuerySet | None]
    models: Mapping[str, Model | None]
    stages: Mapping[str, Stage | None]
    kinds: Mapping[str, str]
    """The kind of each stage as written, "" where it has none; a score of pairs is one apart."""
    data: Any
    """What the recipe's text says."""

    def word(self, *key: str | int) -> str | None:
        """The text at a key, in sound and unsound parts alike; None if there is none."""
        value = _at(self.data, key)
        return value if isinstance(value, str) else None

    def words(self, *key: str | int) -> list[tuple[Key, str]]:
        """The texts in the list at a key, each with its own key."""
        value = _at(self.data, key)
        entries = enumerate(value) if isinstance(value, list) else ()
        return [((*key, i), entry) for i, entry in entries if isinstance(entry, str)]


def draft(data: Any) -> Draft:
    """What can be made of a recipe's data."""
    if not isinstance(data, dict):
        data = {}
    stages = _mapping(data.get("stages"))
    stage_type: TypeAdapter[Stage] = TypeAdapter(Stage)
    return Draft(
        collection=_sound(TypeAdapter(Collection), data.get("collection")),
        queries=_each(TypeAdapter(QuerySet), data.get("queries")),
        models=_each(TypeAdapter(Model), data.get("models")),
        stages={name: _sound(stage_type, stage) for name, stage in stages.items()},
        kinds={name: _kind(stage) for name, stage in stages.items()},
        data=data,
    )


def _each(adapter: TypeAdapter[T], values: Any) -> Mapping[str, T | None]:
    return {name: _sound(adapter, value) for name, value in _mapping(values).items()}


def _sound(adapter: TypeAdapter[T], value: Any) -> T | None:
    try:
        return adapter.validate_python(value)
    except ValidationError:  # reported by structure.py, with the whole recipe
        return None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _kind(stage: Any) -> str:
    kind = _mapping(stage).get("do")
    if kind == "score" and _mapping(stage).get("k1") is not None:
        return PAIRS_KIND
    return kind if isinstance(kind, str) else ""


def _at(data: Any, key: Key) -> Any:
    for part in key:
        data = _mapping(data).get(str(part))
    return data
