"""A recipe of which some parts may be wrong: the sound ones as objects, the others as names.

The rules that tie parts together run on it, so that one bad value hides no other problem.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from raypipe.config.pipeline.kinds import KINDS, Kind, Produces, Written
from raypipe.config.pipeline.parts import Collection, Model, QuerySet
from raypipe.config.yaml.document import Key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts in the order of the recipe; None stands for one that is missing or wrong."""

    collection: Collection | None
    queries: Mapping[str, QuerySet | None]
    models: Mapping[str, Model | None]
    stages: Mapping[str, Kind | None]
    labels: Mapping[str, str]
    """What messages call the kind of each stage as written, "" where it has none."""
    data: Any
    """What the recipe's text says."""

    def kind(self, name: str) -> type[Kind] | None:
        """The kind of a stage as written, sound or not; None where it has none."""
        return KINDS.get(self.word("stages", name, "do") or "")

    def produces(self, name: str) -> Produces | None:
        """What a stage makes, sound or not; None where that is not known."""
        kind = self.kind(name)
        return kind.labels[self.labels[name]] if kind else None

    def word(self, *key: str | int) -> str | None:
        """The text at a key, in sound and unsound parts alike; None if there is none."""
        value = _at(self.data, key)
        return value if isinstance(value, str) else None

    def words(self, *key: str | int) -> list[tuple[Key, str]]:
        """The texts in the list at a key, each with its own key."""
        value = _at(self.data, key)
        entries = enumerate(value) if isinstance(value, list) else ()
        return [((*key, i), entry) for i, entry in entries if isinstance(entry, str)]

    def keys(self, *key: str | int) -> list[tuple[Key, str]]:
        """The keys of the mapping at a key, each with its own key."""
        return [((*key, name), name) for name in _mapping(_at(self.data, key))]


def draft(data: Any) -> Draft:
    """What can be made of a recipe's data."""
    if not isinstance(data, dict):
        data = {}
    stages = _mapping(data.get("stages"))
    stage_type: TypeAdapter[Kind] = TypeAdapter(Written)
    return Draft(
        collection=_sound(TypeAdapter(Collection), data.get("collection")),
        queries=_each(TypeAdapter(QuerySet), data.get("queries")),
        models=_each(TypeAdapter(Model), data.get("models")),
        stages={name: _sound(stage_type, stage) for name, stage in stages.items()},
        labels={name: _label(stage) for name, stage in stages.items()},
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


def _label(stage: Any) -> str:
    written = _mapping(stage)
    do = written.get("do")
    if isinstance(do, str) and do in KINDS:
        return KINDS[do].label(written)
    return do if isinstance(do, str) else ""


def _at(data: Any, key: Key) -> Any:
    for part in key:
        data = _mapping(data).get(str(part))
    return data
