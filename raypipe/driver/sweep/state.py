"""The folder of a sweep: sweep.json, and a workspace for each point."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from raypipe.config.yaml import value_text
from raypipe.driver.mirror import (
    MARK,
    address_of,
    default_stores,
    mirror_of,
    own_storage,
    write_out,
)
from raypipe.errors import CorruptError
from raypipe.shapes import Shape, check_shape
from raypipe.storage.records import digest

FILE = "sweep.json"
POINTS = "points"
FORMAT = 1
_PLAIN = re.compile(r"[A-Za-z0-9.=,_+-]{1,120}")
_REMEDY = "run the same command again, which writes this file anew"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured system of one point."""

    values: Mapping[str, Any]
    """Swept key -> the point's value."""
    point: str
    query_set: str
    system: str
    n: int
    """The queries with judgements."""
    measures: Mapping[str, float]
    ms_per_query: float | None
    inferences_per_query: float | None
    """Of its whole chain; None if no reranker has a part in it."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What sweep.json says."""

    recipe: str
    stores: str | None
    """Where the stores of all points are; None: in the folder itself."""
    points: Mapping[str, Mapping[str, Any]]
    """Name of the point -> swept key -> its value, in the order in which they run."""
    rows: Sequence[Row] = ()
    """Of the points that are complete."""

    @property
    def keys(self) -> list[str]:
        """The swept keys."""
        return list(next(iter(self.points.values())))

    def to_json(self) -> dict[str, Any]:
        """The content of sweep.json."""
        return {
            "format": FORMAT,
            "recipe": self.recipe,
            "stores": self.stores,
            "keys": self.keys,
            "points": dict(self.points),
            "rows": [asdict(row) for row in self.rows],
        }


def point_name(values: Mapping[str, Any]) -> str:
    """The name of a point's folder: stages.mono.k0=20,stages.duo.k1=10.

    It depends on the point alone, so that a sweep with more values resumes the points that it has.
    """
    texts = [f"{key}={value_text(value)}" for key, value in values.items()]
    name = ",".join(texts)
    if _PLAIN.fullmatch(name):
        return name
    return f"{re.sub(r'[^A-Za-z0-9.=,_+-]+', '-', name)[:80]}-{digest(name.encode())[:8]}"


def point_folder(folder: Path, name: str) -> Path:
    """The workspace of a point; of a sweep in a bucket, the folder that mirrors it."""
    if (folder / MARK).exists():
        return mirror_of(f"{address_of(folder)}/{POINTS}/{name}")
    return folder / POINTS / name


def point_address(folder: Path, name: str) -> str:
    """Where the workspace of a point is, in messages."""
    return f"{address_of(folder)}/{POINTS}/{name}"


def stores_of_point(folder: Path) -> str | None:
    """The stores of the sweep in whose folder a point is, also if that was moved.

    None if the folder is no point's, or a bucket has it, which its recipe.yaml names.

    Raises:
        CorruptError: sweep.json is damaged.
    """
    points = folder.absolute().parent
    if points.name != POINTS or (folder / MARK).exists():
        return None
    sweep = read_sweep(points.parent)
    return None if sweep is None else sweep.stores or default_stores(points.parent)


def is_sweep(folder: Path) -> bool:
    """Whether a sweep has begun in the folder."""
    if (folder / MARK).exists():
        return own_storage(folder).exists(FILE)
    return (folder / FILE).is_file()


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Replace sweep.json."""
    write_out(folder, FILE, json.dumps(sweep.to_json(), indent=1).encode() + b"\n")


def read_sweep(folder: Path) -> Sweep | None:
    """What sweep.json says; None if the folder is no sweep's.

    Raises:
        CorruptError: it is damaged.
    """
    if not is_sweep(folder):
        return None
    name = f"{address_of(folder)}/{FILE}"
    in_bucket = (folder / MARK).exists()
    data = own_storage(folder).read(FILE) if in_bucket else (folder / FILE).read_bytes()
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptError(f"{name}: not JSON; {_REMEDY}") from None
    check_shape(name, body, _Shape, remedy=_REMEDY)
    rows = [Row(**row) for row in body["rows"]]
    return Sweep(body["recipe"], body["stores"], body["points"], rows)


class _RowShape(Shape, extra="forbid"):
    values: dict[str, Any]
    point: str
    query_set: str
    system: str
    n: int
    measures: dict[str, float]
    ms_per_query: float | None
    inferences_per_query: float | None


class _Shape(Shape):
    recipe: str
    stores: str | None
    points: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    rows: list[_RowShape]
