"""Types and keys of a recipe: what pydantic finds, in the words of a recipe's writer."""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from raypipe.config.fields import Section
from raypipe.config.pipeline.recipe import Collection, Evaluate, Model, QuerySet, Recipe, Resources
from raypipe.config.pipeline.stage_kinds import STAGE_KINDS, Bm25, Tune
from raypipe.config.yaml.document import Key, Problem
from raypipe.config.yaml.words import did_you_mean, listed, shown

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list, such as [a, b]",
    "dict_type": "a mapping, KEY: VALUE",
    "model_type": "a mapping, KEY: VALUE",
    "model_attributes_type": "a mapping, KEY: VALUE",
    "string_too_short": "some text",
    "too_short": "at least {min_length}",
    "greater_than_equal": "a number from {ge:g}",
    "greater_than": "a number above {gt:g}",
    "less_than_equal": "a number up to {le:g}",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "expected": "{expected}",
}


SectionAt = Callable[[Key, Any], type[Section]]


def structural_problems(
    error: ValidationError, data: Any, *, section_at: SectionAt | None = None
) -> list[Problem]:
    """One problem for each thing pydantic found in the data of a whole recipe.

    `section_at` gives the model of the mapping at a key; None: of a pipeline's recipe.
    """
    at = section_at or _section_at
    return [_problem(details, data, at) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails, data: Any, section_at: SectionAt) -> Problem:
    kind, key = details["type"], _key(details["loc"])
    if kind == "extra_forbidden":
        fields = section_at(key[:-1], data).model_fields
        known = [field.alias or name for name, field in fields.items()]
        hint = did_you_mean(str(key[-1]), known)
        return Problem(key, f"unknown key{hint} known here: {listed(known)}")
    if kind == "missing":
        return Problem(key, "missing; it has no default")
    if kind == "union_tag_not_found":
        return Problem((*key, "do"), f"missing; expected one of {listed(STAGE_KINDS)}")
    if kind == "union_tag_invalid":
        tag = str(details["ctx"]["tag"])
        hint = did_you_mean(tag, STAGE_KINDS)
        text = f"unknown kind of stage {shown(tag)}{hint} known: {listed(STAGE_KINDS)}"
        return Problem((*key, "do"), text)
    template = _EXPECTED.get(kind)
    expected = template.format(**details.get("ctx", {})) if template else details["msg"]
    found = details["ctx"]["actual_length"] if kind == "too_short" else details["input"]
    return Problem(key, f"expected {expected}; found {shown(found)}{_remedy(kind, found)}")


def _key(loc: tuple[str | int, ...]) -> Key:
    """Where the value stands: without pydantic's marks for a key and for the kind of a stage."""
    if loc[-1:] == ("[key]",):
        loc = loc[:-1]
    return (*loc[:2], *loc[3:]) if loc[:1] == ("stages",) else loc


def _section_at(key: Key, data: Any) -> type[Section]:
    """The model of the mapping at a key that pydantic looked into."""
    match key:
        case ("collection",):
            return Collection
        case ("queries", _):
            return QuerySet
        case ("models", _):
            return Model
        case ("stages", name):
            return STAGE_KINDS[data["stages"][name]["do"]]
        case ("stages", _, "bm25"):
            return Bm25
        case ("stages", _, "bm25", "tune"):
            return Tune
        case ("evaluate",):
            return Evaluate
        case ("resources",):
            return Resources
        case _:
            return Recipe


def _remedy(kind: str, found: object) -> str:
    """What to do where YAML itself sets the trap."""
    if kind == "float_type" and isinstance(found, str):
        try:
            return f"; YAML reads {found} as text: write {float(found)!r}" if found else ""
        except ValueError:
            return ""
    if kind == "string_type" and isinstance(found, bool | int | float):
        return '; quote it to make it text: "..."'
    return ""
