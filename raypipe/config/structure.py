"""Wrong types and keys in a recipe: pydantic's findings as messages for the recipe's author."""

import re
import types
from math import isfinite
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from raypipe.config.trainers import instead_of, loss_named
from raypipe.config.yaml import Key, Problem, in_words
from raypipe.errors import did_you_mean, listed
from raypipe.kinds.registry import KINDS
from raypipe.vocabulary import FORMAT_WORDS

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
    "less_than": "a number below {lt:g}",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "expected": "{expected}",
}


OF_TRAININGS = "raypipe.config.training"
"""The module of the sections of a training, in which other trainers' keys are told apart."""
COUNTING_STEPS = ("warmup", "every", "checkpoint_every")
_NAMED = sorted(KINDS)
_MAPPINGS = ("dict_type", "model_type", "model_attributes_type")


def structural_problems(error: ValidationError, data: Any, root: type[BaseModel]) -> list[Problem]:
    """One problem for each thing pydantic found in the data of a whole recipe of type `root`."""
    return [_problem(details, data, root) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails, data: Any, root: type[BaseModel]) -> Problem:
    kind, key = details["type"], _key(details["loc"])
    if kind == "extra_forbidden":
        section = section_at(root, key[:-1], data)
        keys = [field.alias or name for name, field in section.model_fields.items()]
        hint = did_you_mean(str(key[-1]), keys)
        if section.__module__ == OF_TRAININGS and (remedy := instead_of(str(key[-1]))):
            hint = f"; {remedy};"
        return Problem(key, f"unknown key{hint} known here: {listed(keys)}")
    if kind == "missing":
        return Problem(key, "missing; it has no default")
    if kind == "union_tag_not_found":
        return Problem((*key, "do"), f"missing; expected one of {listed(_NAMED)}")
    if kind == "union_tag_invalid":
        tag = str(details["ctx"]["tag"])
        hint = did_you_mean(tag, _NAMED)
        text = f"unknown kind of stage {in_words(tag)}{hint} known: {listed(_NAMED)}"
        return Problem((*key, "do"), text)
    template = _EXPECTED.get(kind)
    expected = template.format(**details.get("ctx", {})) if template else details["msg"]
    value = details["ctx"]["actual_length"] if kind == "too_short" else details["input"]
    remedy = _remedy(kind, value) or _near(kind, expected, value)
    if (
        kind == "int_type"
        and key[-1] in COUNTING_STEPS
        and section_at(root, key[:-1], data).__module__ == OF_TRAININGS
    ):
        remedy = "; it counts steps, not a share of them or epochs"
    return Problem(key, f"expected {expected}; found {in_words(value)}{remedy}")


def _key(loc: tuple[str | int, ...]) -> Key:
    """The key of the value, without pydantic's marks for keys and for the kind of a stage."""
    if loc[-1:] == ("[key]",):
        loc = loc[:-1]
    return (*loc[:2], *loc[3:]) if loc[:1] == ("stages",) else loc


def section_at(root: type[BaseModel], key: Key, data: Any) -> type[BaseModel]:
    """The pydantic model of the mapping at a key of the data."""
    here: Any = root
    for name in key:
        data = data[name] if isinstance(data, dict) else None
        if isinstance(here, type) and issubclass(here, BaseModel):
            fields = {field.alias or own: field for own, field in here.model_fields.items()}
            here = _inside(fields[str(name)].annotation, data)
        else:  # a mapping from names to models
            here = _inside(get_args(here)[1], data)
    return here if isinstance(here, type) and issubclass(here, BaseModel) else root


def _inside(annotation: Any, data: Any) -> Any:
    """The type itself, without `| None`; for a stage, the kind that `do` names."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) not in (types.UnionType, Union):
        return annotation
    members = [member for member in get_args(annotation) if member is not type(None)]
    return members[0] if len(members) == 1 else KINDS[data["do"]]


def _remedy(kind: str, value: object) -> str:
    """The remedy where YAML reads a value as another type than its author meant, or a near word."""
    if isinstance(value, list) and kind not in _MAPPINGS:
        return "; give one value, and for each other value run the recipe once more"
    if kind == "float_type" and isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return ""
        return f"; YAML reads {value} as text: write {_as_yaml(number)}" if isfinite(number) else ""
    if kind == "string_type" and isinstance(value, bool | int | float):
        return '; quote it to make it text: "..."'
    return ""


def _as_yaml(number: float) -> str:
    """The number as YAML reads it: an exponent only after a point, and with its sign."""
    text = repr(number)
    return text if "." in text else text.replace("e", ".0e")


def _near(kind: str, expected: str, value: object) -> str:
    """The one of the expected words that was probably meant."""
    if kind != "literal_error" or not isinstance(value, str):
        return ""
    words = re.findall(r"'([^']*)'", expected)
    meant = FORMAT_WORDS.get(value) or loss_named(value)
    if meant in words:
        return f"; did you mean {meant}?"
    return did_you_mean(value, words).removesuffix(";")
