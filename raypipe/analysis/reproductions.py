"""What `raypipe reproduce` runs for each name, and what it compares; packaged data."""

from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from raypipe.analysis.published import PUBLISHED, read_packaged
from raypipe.config.fields import Section
from raypipe.config.words import did_you_mean, listed
from raypipe.errors import InputError

How = Literal["the authors' weights", "retrained", "our own baseline", "their run, measured here"]
"""How our value comes about, which decides its tolerance."""


class Step(Section):
    """One invocation of a packaged recipe, a pipeline or a training."""

    recipe: str
    name: str | None = None
    """In options and messages; that of the recipe unless given."""
    out: str | None = None
    """The workspace's folder below --out; the name unless given."""
    until: str | None = None
    settings: list[str] = []
    """KEY=VALUE each; ${OUT} is the folder of --out."""
    environment: dict[str, str] = {}
    """Values of variables that are outputs of earlier steps."""

    @property
    def called(self) -> str:
        """Its name."""
        return self.name or self.recipe

    @property
    def folder(self) -> str:
        """Its workspace below --out."""
        return self.out or self.called


class Shown(Section):
    """A published table that is printed."""

    source: str
    table: str
    collection: str | None = None
    """Only the columns of this collection."""
    others: bool = True
    """Whether rows that no step measures are shown too."""


class Compared(Section):
    """Rows of a table that a step measures."""

    source: str
    table: str
    step: str
    queries: str | None = None
    """The recipe's query set; None of a training, whose systems are PHASE/DEV SET."""
    how: How
    within: Annotated[float, Field(gt=0, lt=0.1)]
    """The largest difference that passes."""
    why: str
    measures: dict[str, str] = {}
    """Column -> our measure, where its notation differs from the column's."""
    systems: dict[str, dict[str, str]]
    """Row -> column -> our system."""


class Figures(Section):
    """A source whose settings are printed, and the step whose stages have them too."""

    source: str
    step: str | None = None


class Reproduction(Section):
    """All of one name."""

    name: str
    about: str
    steps: Annotated[list[Step], Field(min_length=1)]
    tables: Annotated[list[Shown], Field(min_length=1)]
    compared: list[Compared]
    notes: list[str] = []
    settings: list[Figures] = []


class Input(Section):
    """A file or folder that a recipe names."""

    what: str
    from_: Annotated[str, Field(alias="from")]
    layers: int | None = None
    """Of weights, with `hidden`: what the figures were measured with."""
    hidden: int | None = None


class Inputs(Section):
    """All files and folders, by their path with the variables of the recipes."""

    folders: dict[str, str]
    """Variable -> its folder below --data."""
    inputs: dict[str, Input]


def names() -> list[str]:
    """The names that can be reproduced, sorted."""
    return sorted(path.stem for path in (PUBLISHED / "reproductions").glob("*.yaml"))


@cache
def reproduction(name: str) -> Reproduction:
    """The reproduction of that name.

    Raises:
        InputError: there is none.
    """
    if name not in names():
        hint = did_you_mean(name, names())
        raise InputError(f"reproduce: no {name!r}{hint} expected one of {listed(names())}")
    return read_packaged(f"reproductions/{name}.yaml", Reproduction)


@cache
def inputs() -> Inputs:
    """What recipes read and where it is from."""
    return read_packaged("inputs.yaml", Inputs)
