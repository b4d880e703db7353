"""Published figures, and the steps that `raypipe reproduce` runs to compare with them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from raypipe.config.fields import Section
from raypipe.config.load import named_recipe, named_training, recipe_text, verb_of
from raypipe.config.phases import PhasedTraining
from raypipe.config.recipe import Recipe
from raypipe.config.training import Training
from raypipe.config.yaml import parse_yaml
from raypipe.errors import InputError, did_you_mean, listed
from raypipe.package import FOLDER

Read = TypeVar("Read", bound=Section)
PUBLISHED = FOLDER / "published"
TIME = "ms/query"
"""A column of times; every other column names a measure in the notation of ir_measures."""


class Column(Section):
    """One column of a published table: collection, queries and measure."""

    collection: str
    queries: str
    measure: str
    board_only: bool = False
    """Only the leaderboard has the judgements."""


class PublishedTable(Section):
    """One table of a source, in its rows, columns and unit."""

    name: str
    unit: Literal["points of 100", "share"]
    columns: Annotated[dict[str, Column], Field(min_length=1)]
    rows: Annotated[dict[str, dict[str, float | None]], Field(min_length=1)]
    """Row -> column -> value; None where a figure was looked for and not found."""
    inferred: dict[str, list[str]] = {}
    """Row -> columns whose values are not printed but follow from others."""


class PublishedSource(Section):
    """A paper, or a page of figures."""

    source: str
    title: str
    url: str
    tables: Annotated[list[PublishedTable], Field(min_length=1)]

    def table(self, name: str) -> PublishedTable:
        """The table of that name, which is in the file."""
        return next(table for table in self.tables if table.name == name)


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """One published value."""

    source: str
    table: str
    row: str
    column: str
    about: Column
    value: float | None
    """A share of 1 for a measure, whatever the source's unit; milliseconds for a time."""
    is_inferred: bool

    @property
    def where(self) -> str:
        """Source and table, for a reader."""
        return f"{self.source}, {self.table}"


def cells(source: str, table: str, collection: str | None = None) -> Iterator[PublishedValue]:
    """The values of a packaged table in its order, by row; of one collection if it is named."""
    of = sources()[source]
    published_table = of.table(table)
    for row, values in published_table.rows.items():
        for name, value in values.items():
            column = published_table.columns[name]
            if collection in (None, column.collection):
                points = published_table.unit == "points of 100" and column.measure != TIME
                share = round(value / 100, 6) if points and value is not None else value
                inferred = name in published_table.inferred.get(row, ())
                yield PublishedValue(of.source, table, row, name, column, share, inferred)


@cache
def sources() -> dict[str, PublishedSource]:
    """The packaged sources by the name of their file, sorted.

    Raises:
        InputError: a file is not what it has to be; that of a whole installation is.
    """
    by_name = {}
    for path in sorted((PUBLISHED / "tables").glob("*.yaml")):
        by_name[path.stem] = read_packaged(path.relative_to(PUBLISHED).as_posix(), PublishedSource)
    return by_name


def read_packaged(name: str, kind: type[Read]) -> Read:
    """A packaged file of that name under `published`, checked.

    Raises:
        InputError: see `sources`.
    """
    path = PUBLISHED / name
    document = parse_yaml(path.read_text(encoding="utf-8"), origin=lambda line: f"{path}: {line}")
    problems = [document.describe(problem) for problem in document.problems]
    try:
        read = kind.model_validate(document.data)
    except ValidationError as error:
        raise InputError(
            [f"{path}: {detail['loc']}: {detail['msg']}" for detail in error.errors()]
        ) from None
    if problems:
        raise InputError(problems)
    return read


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


class PrintedTable(Section):
    """A published table that is printed."""

    source: str
    table: str
    collection: str | None = None
    """Only the columns of this collection."""
    others: bool = True
    """Whether rows that no step measures are shown too."""


class MeasuredRows(Section):
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


class Reproduction(Section):
    """All of one name."""

    name: str
    about: str
    steps: Annotated[list[Step], Field(min_length=1)]
    tables: Annotated[list[PrintedTable], Field(min_length=1)]
    compared: list[MeasuredRows]
    notes: list[str] = []


class Input(Section):
    """A file or folder that a recipe names."""

    what: str
    from_: Annotated[str, Field(alias="from")]
    layers: int | None = None
    """Layers of the weights with which the figures were measured. `hidden` is their width."""
    hidden: int | None = None


class InputList(Section):
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
def inputs() -> InputList:
    """The list of inputs that recipes read, each with its origin."""
    return read_packaged("inputs.yaml", InputList)


STORES = "stores"
"""Below --out: the stores that all pipelines share, so that none computes what another has."""


@dataclass(frozen=True)
class Planned:
    """One step, ready to run."""

    step: Step
    recipe: Recipe | Training | PhasedTraining
    folder: Path
    """Its workspace."""


def plan(
    of: Reproduction,
    out: Path,
    *,
    data: Path | None = None,
    only: Sequence[str] = (),
    settings: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> list[Planned]:
    """The steps to run, in order; opens no file but the packaged recipes.

    A variable that is set nowhere stands in the paths as `/${NAME}`.

    Args:
        of: the reproduction.
        out: the folder of all workspaces.
        data: holds a folder for each variable that `env` does not set.
        only: names of steps; by default all of them.
        settings: KEY=VALUE for every step, or STEP:KEY=VALUE for one.
        env: values of variables.

    Raises:
        InputError: an unknown step, or every problem of the recipes with these settings.
    """
    steps = _chosen(of, only)
    known = {step.called: step for step in of.steps}
    given = [_addressed(setting, known) for setting in settings]
    values = variables(env or {}, data) | {"OUT": str(out.absolute())}
    planned, problems = [], [] if steps else ["reproduce: no step"]
    for step in steps:
        own = {name: _with_out(value, out) for name, value in step.environment.items()}
        changed = [*step.settings]
        trains = verb_of(recipe_text(step.recipe)) == "train"
        if not trains:
            changed.append(f"stores={out.absolute() / STORES}")
        changed += [setting for where, setting in given if where in (None, step.called)]
        load = named_training if trains else named_recipe
        try:
            recipe = load(step.recipe, overrides=changed, env=values | own)
        except InputError as error:
            problems += [f"{step.called}: {problem}" for problem in error.problems]
            continue
        planned.append(Planned(step, recipe, out / step.folder))
    if problems:
        raise InputError(problems)
    return planned


def variables(env: Mapping[str, str], data: Path | None) -> dict[str, str]:
    """The value of every variable: as set, below `data`, or a path that shows its name."""
    values = dict(env)
    for name, folder in inputs().folders.items():
        if name not in values:
            values[name] = f"/${{{name}}}" if data is None else str(data.absolute() / folder)
    return values


def unset_variables(env: Mapping[str, str], data: Path | None) -> list[str]:
    """Names of the variables to which neither `env` nor `data` gives a value."""
    return [name for name in inputs().folders if data is None and name not in env]


def _with_out(value: str, out: Path) -> str:
    return value.replace("${OUT}", str(out.absolute()))


def _chosen(of: Reproduction, only: Sequence[str]) -> list[Step]:
    known = [step.called for step in of.steps]
    problems = [
        f"--only: {of.name} has no step {name!r}{did_you_mean(name, known)} it has {listed(known)}"
        for name in only
        if name not in known
    ]
    if problems:
        raise InputError(problems)
    return [step for step in of.steps if not only or step.called in only]


def _addressed(setting: str, known: Mapping[str, Step]) -> tuple[str | None, str]:
    """(step or None for all, KEY=VALUE)."""
    key, equals, value = setting.partition("=")
    where, colon, rest = key.partition(":")
    if not colon:
        return None, setting
    if where not in known:
        hint = did_you_mean(where, known)
        raise InputError(f"{setting}: no step {where!r}{hint} expected one of {listed(known)}")
    return where, f"{rest}{equals}{value}"
