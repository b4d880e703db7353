"""Sections as one HTML page that needs nothing else, and their numbers as JSON files beside it."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from raypipe.driver.mirror import write_out
from raypipe.errors import InputError
from raypipe.report.charts import svg
from raypipe.report.section import Section, Value, plain, shown

PAGE = "report.html"
TWINS = "analysis"
_OWN = re.compile(
    r"((overview(-of-documents)?|depth|tradeoff-of-[^.]+|training-size|fusion|movers"
    r"|queries(-of-documents)?"
    r"|forecast|side-by-side(-of-documents)?)\..+|training-of-[^.]+)\.json"
)
"""The names of twins; other files in the folder are left alone."""
SHORT, LONG = 20, 60
"""Characters of a cell that stands on one line, and of a cell or fact that is given more room."""


def page(title: str, sections: Sequence[Section]) -> str:
    """The page; every number in its tables is a value of a section, as `shown` writes it.

    A line's name, such as a system's, has one colour and marker in all charts. All texts are
    escaped by the template.
    """
    charts = [chart for section in sections for chart in section.charts]
    names = dict.fromkeys(name for chart in charts for name in chart.lines)
    places = {name: place for place, name in enumerate(names)}
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "plain": plain,
        "shown": shown,
        "cell": _cell,
        "room": _room,
        "svg": lambda chart: Markup(svg(chart, places)),
    }
    return environment.get_template("page.html").render(title=title, sections=sections, long=LONG)


def _cell(value: Value, column: str) -> str:
    """A cell's text: a string whole, and `-` for what is no number."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "-"
    return shown(value, column)


def _room(value: Value) -> str:
    """The class of a cell, by the room that it needs."""
    if not isinstance(value, str):
        return "number"
    length = len(plain(value))
    return "long" if length > LONG else "short" if length <= SHORT else "text"


def make_twins_folder(folder: Path) -> None:
    """FOLDER/analysis, if it is not there.

    Raises:
        InputError: there is a file of that name.
    """
    path = folder / TWINS
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: expected a folder for analyses, found a file; move it away")
    path.mkdir(exist_ok=True)


def write_page(folder: Path, title: str, sections: Sequence[Section]) -> Path:
    """FOLDER/report.html and FOLDER/analysis/NAME.SET.json; earlier ones are replaced.

    Twins of an earlier page without a section in this one are deleted.
    """
    twins = {_file_of(section): section.to_json() for section in sections}
    for path in (folder / TWINS).glob("*.json"):
        if path.name not in twins and _OWN.fullmatch(path.name):
            path.unlink()  # of an earlier recipe: nothing on the page has its numbers
    return write_with_twins(folder, PAGE, title, sections, twins)


def write_with_twins(
    folder: Path,
    name: str,
    title: str,
    sections: Sequence[Section],
    twins: Mapping[str, Mapping[str, Any]],
) -> Path:
    """FOLDER/NAME, the page of some sections; FOLDER/analysis/TWIN, the same as JSON, before it.

    Raises:
        InputError: see `make_twins_folder`.
    """
    make_twins_folder(folder)
    for twin, body in twins.items():
        data = json.dumps(body, indent=1).encode() + b"\n"
        write_out(folder, f"{TWINS}/{twin}", data)
    write_out(folder, name, page(title, sections).encode())
    return folder / name


def _file_of(section: Section) -> str:
    """The name of a section's twin: that of the section, and of its query set if it has one."""
    parts = [section.name.replace(" ", "-"), section.query_set, "json"]
    return ".".join(part for part in parts if part)
