"""The keys of recipes, from their types: `raypipe recipes --keys` and its JSON Schema for editors.

The text of a key is the docstring below its field, or that of the section that it opens.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from raypipe.config.fields import Section, Source
from raypipe.config.phases import SHARED, Own
from raypipe.config.recipe import WrittenRecipe
from raypipe.config.training import Training
from raypipe.errors import InputError, did_you_mean, listed
from raypipe.kinds.registry import KINDS
from raypipe.markdown import Table, Text, joined

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def texts_of(section: type[Section]) -> dict[str, str]:
    """Field -> the docstring below it, on one line; of inherited fields too.

    pydantic's `use_attribute_docstrings` reads them whenever the types are imported, which takes
    each process a tenth of a second.
    """
    texts = {}
    for kind in reversed(section.__mro__[: section.__mro__.index(Section)]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                    texts[name] = " ".join(text.split())
    return texts


class _Described(GenerateJsonSchema):
    """The schema of sections, with the docstrings of fields and defaults that are filled in."""

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        made: Schema = super().model_schema(schema)
        section: type[Section] = schema["cls"]
        texts = texts_of(section)
        for name, field in section.model_fields.items():
            key = made["properties"][field.alias or name]
            if name in texts:
                key["description"] = texts[name]
            if (value := _filled_in(field)) is not None:
                key["default"] = value
        return made


def _filled_in(field: FieldInfo) -> Any:
    """The default of a key that is filled in when a recipe is loaded, if it is always the same."""
    sources = [each for each in field.metadata if isinstance(each, Source) and each.default]
    values = (each.value for each in sources if not callable(each.value))
    return next(values, None) if field.default is None else None


class _InParts(_Described):
    """The schema of what may stand in two places, in a phase and beside `phases`: no key must."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Never."""
        return False


def json_schema() -> Schema:
    """The schema of a recipe as written: of a training if it has a loss or phases.

    What is checked across keys is left to raypipe: whether a stage's inputs are there, say.
    """
    pipeline = _schema_of(WrittenRecipe, "pipeline")
    training = _schema_of(Training, "training")
    phased = _schema_of(Training, "phased", _InParts)
    own = _schema_of(Own, "phased")
    keys = phased["properties"]
    alone = {name: key for name, key in keys.items() if name not in SHARED}
    keys["phases"] = {
        "type": "array",
        "minItems": 1,
        "items": {**own, "properties": {**alone, **own["properties"]}},
        "description": "Trainings, each of which begins from an earlier one's model.",
    }
    phased["required"] = [name for name in training["required"] if name in SHARED] + ["phases"]
    return {
        "$schema": DIALECT,
        "title": "A recipe of raypipe",
        "if": {"required": ["phases"]},
        "then": {"$ref": "#/$defs/phased"},
        "else": {
            "if": {"required": ["loss"]},
            "then": {"$ref": "#/$defs/training"},
            "else": {"$ref": "#/$defs/pipeline"},
        },
        "$defs": {"pipeline": pipeline, "training": training, "phased": phased},
    }


def _schema_of(
    section: type[Section], name: str, generator: type[_Described] = _Described
) -> Schema:
    """A section's schema, which stands in `$defs` of the whole under a name."""
    template = f"#/$defs/{name}/$defs/{{model}}"
    return section.model_json_schema(ref_template=template, schema_generator=generator)


def keys_of(what: str | None = None) -> Text:
    """The keys of a pipeline recipe, of one kind of stage, or of a training recipe.

    Raises:
        InputError: no such kind.
    """
    if what == "train":
        phases = Text(["A phase of `phases` has these keys, some of those above, and:", ""])
        return joined([_table(Training), phases, _table(Own, "phases[].")])
    if what is not None and what not in KINDS:
        hint = did_you_mean(what, [*KINDS, "train"])
        raise InputError(f"--keys: no stage {what!r}{hint} there are: {listed(KINDS)} and train")
    parts = [] if what is not None else [_table(WrittenRecipe)]
    for do, kind in sorted(KINDS.items()):
        if what in (None, do):
            about = _about(_schema_of(kind, ""))
            head = Text([f"A stage with `do: {do}`. {about}", ""])
            parts += [head, _table(kind, "stages.NAME.")]
    return joined(parts)


def has_key(do: str, key: str) -> bool:
    """Whether there is such a kind of stage, with such a key."""
    return do in KINDS and key in KINDS[do].model_fields


def text_of_key(do: str, key: str) -> str:
    """The text of a key of a stage for the help of a command: its words and its default too."""
    schema = _schema_of(KINDS[do], "")
    row = next(row for row in _rows(schema, schema.get("$defs", {}), "") if row.key == key)
    words = row.values.replace("`", "") if "`" in row.values else ""
    default = "" if row.default is None else f"Default: {row.default}"
    return " ".join(f"{part.rstrip('.')}." for part in (row.text, words, default) if part)


def _table(section: type[Section], prefix: str = "") -> Text:
    """The keys below a section."""
    schema, rows = _schema_of(section, ""), []
    for row in _rows(schema, schema.get("$defs", {}), prefix):
        default = "-" if row.default is None else f"`{row.default}`"
        default = "must be set" if row.must else default
        rows.append([f"`{row.key}`", row.values, default, row.text])
    return Text([Table("", ["key", "values", "default", ""], rows, padded=False), ""])


def _about(section: Schema) -> str:
    """The first paragraph of a section's docstring, on one line."""
    return " ".join(section.get("description", "").split("\n\n")[0].split())


class _Row(NamedTuple):
    """A key: its values and its default as text."""

    key: str
    values: str
    default: str | None
    text: str
    must: bool
    """Whether it must be set."""


def _rows(section: Schema, sections: Schema, prefix: str) -> Iterator[_Row]:
    """Every key below a section, in the order of its fields."""
    for name, key in section["properties"].items():
        options, values, below = key.get("anyOf", [key]), list[str](), None
        must = name in section.get("required", ())
        for option in options:
            named = option.get("additionalProperties")
            opened = named if isinstance(named, dict) and "$ref" in named else option
            if "$ref" in opened:
                name += ".NAME" if opened is named else ""
                below = sections[opened["$ref"].rpartition("/")[2]]
            else:
                values.append(_values(option))
        default, text = key.get("default"), key.get("description", "")
        if below is not None:
            default, text, values = None, text or _about(below), ["section"]
        types = ", ".join(dict.fromkeys(filter(None, values)))
        shown = None if default in (None, [], {}) else _written(default)
        yield _Row(f"{prefix}{name}", types, shown, text, must)
        if below is not None:
            yield from _rows(below, sections, f"{prefix}{name}.")


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(option: Schema) -> str:
    """The values that a key may have."""
    match option:
        case {"enum": words}:
            return ", ".join(f"`{each}`" for each in words)
        case {"const": word}:
            return f"`{word}`"
        case {"type": "array", "items": items}:
            return f"list: {_values(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"mapping: {_values(values)}"
        case {"oneOf": _}:
            return "stage"
        case {"type": "object"}:
            return "mapping: any plain value"
    types = {"string": "text", "integer": "whole number", "boolean": "`true`, `false`", "null": ""}
    return types.get(str(option["type"]), "number")
