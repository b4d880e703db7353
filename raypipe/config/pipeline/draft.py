"""A recipe with possibly invalid parts: the valid ones as objects, the others as names only.

The rules between parts run on it, so that one bad value does not hide other problems.
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
    """The parts in the order of the recipe; None marks a part that is missing or invalid."""

    collection: Collection | None
    queries: Mapping[str, QuerySet | None]
    models: Mapping[str, Model | None]
    stages: Mapping[str, Kind | None]
    labels: Mapping[str, str]
    """The name of each stage's kind in messages, "" for a stage without a kind."""
    data: Any
    """The data of the recipe as written."""

    def kind(self, name: str) -> type[Kind] | None:
        """The kind of a stage as written, valid or not; None if it has none."""
        return KINDS.get(self.word("stages", name, "do") or "")

    def produces(self, name: str) -> Produces | None:
        """What a stage makes, whether the stage is valid or not; None if unknown."""
        kind = self.kind(name)
        return kind.labels[self.labels[name]] if kind else None

    def word(self, *key: str | int) -> str | None:
        """The text at a key, in valid and invalid parts; None if there is none."""
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
    """The draft of a recipe's data."""
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
