"""What `model show` says of a model folder."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from raypipe.errors import InputError

Found = TypeVar("Found")


@dataclass(slots=True)
class Description:
    """A model folder's facts; `problems` is empty if raypipe can use the folder as it is."""

    path: str
    folder: str
    kind: str | None = None
    conventions: dict[str, Any] | None = None
    sources: dict[str, str] | None = None
    """The source of each setting."""
    architecture: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] | None = None
    """file, sha256, bytes, dtypes, tensors, parameters, segment_rows, head_units."""
    tokenizer: dict[str, Any] | None = None
    unused: list[str] | None = None
    """Tensors that raypipe does not read; None if config.json is refused."""
    missing: list[str] | None = None
    made_by: dict[str, Any] | None = None
    """What convert did, if it made the folder."""
    training: str = "not known"
    """yes, or no with the reason."""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def tried(step: Callable[..., Found], *arguments: Any, problems: list[str]) -> Found | None:
    """The result of a step; if it raises an InputError, None, and its problems are added."""
    try:
        return step(*arguments)
    except InputError as error:
        problems += error.problems
        return None
