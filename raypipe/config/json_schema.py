"""A JSON Schema of recipes, made from their types and docstrings, for editors."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from raypipe.config.fields import Section
from raypipe.config.phases import SHARED, Own
from raypipe.config.recipe import WrittenRecipe
from raypipe.config.training import Training


def texts_of(section: type[Section]) -> dict[str, str]:
    """Field -> the docstring below it, on one line; of inherited fields too."""
    found = {}
    for kind in reversed(section.__mro__[: section.__mro__.index(Section)]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            told = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and told:
                assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                found[field.target.id] = " ".join(str(below.value.value).split())
    return found


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of a recipe as written: of a training if it has a loss or phases.

    What is checked across keys is left to raypipe: whether a stage's inputs are there, say.
    """
    pipeline, training = _schema_of(WrittenRecipe, "pipeline"), _schema_of(Training, "training")
    phase, own = _without_required(_schema_of(Training, "phase")), _schema_of(Own, "phase")
    shared = {name: each for name, each in phase["properties"].items() if name in SHARED}
    alone = {name: each for name, each in phase["properties"].items() if name not in SHARED}
    phases = {
        **phase,
        "properties": {
            **phase["properties"],
            "phases": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": own["required"],
                    "properties": {**alone, **own["properties"]},
                },
                "description": "Trainings, each of which begins from an earlier one's model.",
            },
        },
        "required": [name for name in training["required"] if name in shared] + ["phases"],
    }
    definitions: dict[str, Any] = {}
    for each in (pipeline, training, phases):
        definitions |= each.pop("$defs", {})
    return {
        "$schema": DIALECT,
        "title": "A recipe of raypipe",
        "if": {"required": ["phases"]},
        "then": phases,
        "else": {"if": {"required": ["loss"]}, "then": training, "else": pipeline},
        "$defs": definitions,
    }


def _schema_of(section: type[Section], prefix: str) -> dict[str, Any]:
    """A section's schema, with descriptions; its definitions have names of their own."""
    found = section.model_json_schema(ref_template=f"#/$defs/{prefix}.{{model}}")
    classes = {each.__name__: each for each in _sections(Section)}
    definitions = found.pop("$defs", {})
    for name, schema in [(section.__name__, found), *definitions.items()]:
        if name in classes:
            for field, text in _texts_by_key(classes[name]).items():
                schema["properties"][field].setdefault("description", text)
    found["$defs"] = {f"{prefix}.{name}": schema for name, schema in definitions.items()}
    return found


def _texts_by_key(section: type[Section]) -> dict[str, str]:
    """Key as written in a recipe -> what its docstring says."""
    fields = section.model_fields
    return {
        fields[name].alias or name: text
        for name, text in texts_of(section).items()
        if name in fields
    }


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    for each in section.__subclasses__():
        yield each
        yield from _sections(each)


def _without_required(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the same keys, none of which must be there: a phase takes them from beside."""
    found = deepcopy(schema)
    found.pop("required", None)
    for each in found["$defs"].values():
        each.pop("required", None)
    return found
