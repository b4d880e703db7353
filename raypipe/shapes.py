"""The types of the fields of a file's JSON object, checked before any of them is used."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raypipe.errors import CorruptError

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""Also a row, or a size in bytes."""
Place = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._@-]*$", max_length=255)]
"""A word that is a part of a file's name: a store, a fingerprint, the id of a workspace."""


class Shape(BaseModel):
    """The fields that an object must have, each of exactly its type; it may have more."""

    model_config = ConfigDict(strict=True)


def fits(body: Mapping[str, Any], shape: type[Shape]) -> bool:
    """Whether an object has the shape, for lines of a log that are left out otherwise."""
    try:
        shape.model_validate(body)
    except ValidationError:
        return False
    return True


_VERIFY = "`raypipe verify` says which file to delete so that it is remade"


def check_shape(
    name: str, body: Mapping[str, Any], shape: type[Shape], *, remedy: str = _VERIFY
) -> None:
    """Returns nothing if a file's object has the shape.

    A seal shows that the bytes are those that were written; what wrote them may still have been
    another program.

    Raises:
        CorruptError: a field is missing or of another type; the message names the first.
    """
    try:
        shape.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"]) or "the whole"
        raise CorruptError(
            f"{name}: {place}: {first['msg'].lower()}; another program or version wrote this; "
            f"{remedy}"
        ) from None
