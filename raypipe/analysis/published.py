"""Published figures: the tables of papers and of toolkits' own pages, as packaged data."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from raypipe.config.fields import Section
from raypipe.config.yaml import parse_yaml
from raypipe.errors import InputError
from raypipe.package import FOLDER

Read = TypeVar("Read", bound=Section)
PUBLISHED = FOLDER / "published"
TIME = "ms/query"
"""A column of times; every other column names a measure in the notation of ir_measures."""


class Column(Section):
    """What a column of a table measures."""

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
    rows: Annotated[dict[str, dict[str, float]], Field(min_length=1)]
    inferred: dict[str, list[str]] = {}
    """Row -> columns whose values are not printed but follow from others."""


class Setting(Section):
    """A setting of a figure or table without figures of its own."""

    of: str
    says: str
    setting: Literal["k0", "k1", "m", "candidates"] | None = None
    values: list[int] | None = None


class Source(Section):
    """A paper, or a page of figures."""

    source: str
    title: str
    url: str
    tables: Annotated[list[PublishedTable], Field(min_length=1)]
    settings: list[Setting] = []

    def table(self, name: str) -> PublishedTable:
        """The table of that name, which is in the file."""
        return next(table for table in self.tables if table.name == name)


@dataclass(frozen=True, slots=True)
class Cell:
    """One published value."""

    source: str
    table: str
    row: str
    column: str
    about: Column
    value: float
    """A share of 1 for a measure, whatever the source's unit; milliseconds for a time."""
    is_inferred: bool

    @property
    def where(self) -> str:
        """Source and table, for a reader."""
        return f"{self.source}, {self.table}"


def cells(source: str, table: str, collection: str | None = None) -> Iterator[Cell]:
    """The values of a packaged table in its order, by row; of one collection if it is named."""
    of = sources()[source]
    found = of.table(table)
    for row, values in found.rows.items():
        for name, value in values.items():
            column = found.columns[name]
            if collection in (None, column.collection):
                points = found.unit == "points of 100" and column.measure != TIME
                share = round(value / 100, 6) if points else value
                inferred = name in found.inferred.get(row, ())
                yield Cell(of.source, table, row, name, column, share, inferred)


@cache
def sources() -> dict[str, Source]:
    """The packaged sources by the name of their file, sorted.

    Raises:
        InputError: a file is not what it has to be; that of a whole installation is.
    """
    found = {}
    for path in sorted((PUBLISHED / "tables").glob("*.yaml")):
        found[path.stem] = read_packaged(path.relative_to(PUBLISHED).as_posix(), Source)
    return found


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
            [f"{path}: {told['loc']}: {told['msg']}" for told in error.errors()]
        ) from None
    if problems:
        raise InputError(problems)
    return read
