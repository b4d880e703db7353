"""The kinds of values that the recipe's models share, and the sources of their defaults."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from raypipe.uris import NO_SECRETS, has_secret

MAX_NAME = 64


class Section(BaseModel):
    """A frozen section of a recipe: unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from, in the metadata of a field; the resolved recipe shows it."""

    text: str
    value: Any = None
    """The value that has this source (or a function of the model); None means the field's
    default."""
    default: bool = True
    """False for a paper's value that is used only if the recipe states it."""


OWN = "raypipe's choice"


def _expected(text: str) -> PydanticCustomError:
    return PydanticCustomError("expected", "{expected}", {"expected": text})


def _word_or_count(word: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value == word or (type(value) is int and 1 <= value <= 10**12):
            return value
        raise _expected(f"{word} or a whole number from 1")

    return check


def _same_or_part(value: Any) -> Any:
    if value == "same":
        return value
    if type(value) in (int, float) and 0 <= value <= 1:
        return float(value)
    raise _expected("a number from 0 to 1, or same")


def _location(value: str) -> str:
    scheme, separator, _ = value.partition("://")
    if separator and scheme not in ("file", "s3", "gs"):
        raise _expected("a path or a URI that begins with file://, s3:// or gs://")
    if has_secret(value):
        raise _expected(NO_SECRETS)
    if value.startswith("~"):
        raise _expected("a path without ~ (write ${HOME} for the home folder)")
    return value


def _measure(value: str) -> str:
    if re.fullmatch(r"[A-Za-z_]\w*(\.\d+)?(\([^()]*\))?(@\d+(\.\d+)?)?", value):
        return value
    raise _expected("a measure such as nDCG@10, AP(rel=2), RR(rel=2)@10 or ndcg_cut_10")


def _name(value: str) -> str:
    if re.fullmatch(r"[a-z0-9][a-z0-9-]*", value) and len(value) <= MAX_NAME:
        return value
    raise _expected(
        f"a name of at most {MAX_NAME} lower-case letters, digits and hyphens, the first no hyphen"
    )


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _tuple(value)


Name = Annotated[str, AfterValidator(_name)]
"""Part of file names, stores and TREC tags, so without dots, blanks or capitals."""
Text = Annotated[str, StringConstraints(min_length=1)]


class Holds(Enum):
    """The kind of place that a type's values are, in its metadata; see `paths`."""

    PLACE = "place"
    MODEL = "model"
    EXCLUDED = "excluded"


Location = Annotated[Text, AfterValidator(_location), Holds.PLACE]
"""A path, relative to the recipe's folder while it is written, or a URI."""
OWN_ID = "own-id"
"""In the place of a file: every query excludes the passage of its own id."""
ExcludedPlace = Annotated[Text, AfterValidator(_location), Holds.EXCLUDED]
"""`own-id`, or a path as `Location`."""
ModelPlace = Annotated[Text, Holds.MODEL]
"""A folder, the name of a packaged model or that of a hub's."""
Measure = Annotated[Text, AfterValidator(_measure)]
"""Only the notation is checked here; evaluation checks that the measure exists."""
Count = Annotated[int, Field(ge=1, le=10**12)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Real = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
Listed = BeforeValidator(_tuple)
OneOrMore = BeforeValidator(_one_or_more, json_schema_input_type=str | tuple[str, ...])
AutoOrCount = Annotated[Literal["auto"] | int, BeforeValidator(_word_or_count("auto"))]
SameOrPart = Annotated[Literal["same"] | float, BeforeValidator(_same_or_part)]
AllOrCount = Annotated[Literal["all"] | int, BeforeValidator(_word_or_count("all"))]
