"""An analysis as tables, charts and notes: as text, as JSON, or on a page."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from raypipe.driver.mirror import write_out
from raypipe.errors import InputError
from raypipe.markdown import Table, Text, Value, bullet, plain, shown
from raypipe.report.charts import Chart, svg

PAGE = "report.html"
TWINS = "analysis"
_OWN = re.compile(
    r"((overview(-of-documents)?|depth|tradeoff-of-[^.]+|training-size|fusion|movers"
    r"|queries(-of-documents)?|snapshots"
    r"|forecast|side-by-side(-of-documents)?)\..+|training-of-[^.]+)\.json"
)
"""The names of twins; other files in the folder are left alone."""
ROWS_SHOWN = 30
"""Rows that a section's first table may have and stand open. Longer and later tables are folded."""
HEADINGS = {
    "overview": "Results",
    "depth": "Recall and reranking by depth",
    "fusion": "First stages merged",
    "snapshots": "Over snapshots",
    "queries": "Query by query",
    "making": "How it was made",
}
SHORT, LONG = 20, 60
"""Characters of a cell that stands on one line, and of a cell that is given more room."""


@dataclass(frozen=True, slots=True)
class ReportSection:
    """One analysis of one query set."""

    name: str
    query_set: str
    tables: Sequence[Table]
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Name -> a longer text, such as a file."""
    lead: str = ""
    """Main result of the section, in a sentence."""

    @property
    def heading(self) -> str:
        """The analysis in a reader's words, and the query set if it is of one."""
        name = HEADINGS.get(self.name) or self.name[:1].upper() + self.name[1:]
        return plain(": ".join(part for part in (name, self.query_set) if part))

    def to_json(self) -> dict[str, Any]:
        """All of it, for `json.dumps`."""
        body = asdict(self)
        for table in body["tables"]:
            del table["padded"]
        return body


def to_text(section: ReportSection) -> Text:
    """The section's tables, or a word for one without rows, then its notes."""
    parts: list[str | Table] = [f"## {section.name}: {section.query_set}", ""]
    parts += [section.lead, ""] if section.lead else []
    for table in section.tables:
        parts += [table.title, "", table, ""] if table.rows else [f"{table.title}: none", ""]
    return Text([*parts, *map(bullet, section.notes)]).trimmed()


def page(title: str, sections: Sequence[ReportSection], made_from: str = "") -> str:
    """The page; every number in its tables is a value of a section, as `shown` writes it.

    `made_from` is the hash of what the results depend on, which the page's head names.

    A line's name, such as a system's, has one colour and marker in all charts. All texts are
    escaped by the template.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

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
        "cell": lambda value, column: (
            plain(value) if isinstance(value, str) else shown(value, column)
        ),
        "room": _room,
        "svg": lambda chart: Markup(svg(chart, places)),
    }
    template = environment.get_template("page.html")
    return template.render(
        title=title, sections=sections, made_from=made_from, rows_shown=ROWS_SHOWN
    )


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


def write_page(
    folder: Path, title: str, sections: Sequence[ReportSection], made_from: str = ""
) -> Path:
    """FOLDER/report.html and FOLDER/analysis/NAME.SET.json; earlier ones are replaced.

    Twins of an earlier page without a section in this one are deleted.
    """
    twins = {_file_of(section): section.to_json() for section in sections}
    for path in (folder / TWINS).glob("*.json"):
        if path.name not in twins and _OWN.fullmatch(path.name):
            path.unlink()  # of an earlier recipe: nothing on the page has its numbers
    return write_with_twins(folder, PAGE, title, sections, twins, made_from)


def write_with_twins(
    folder: Path,
    name: str,
    title: str,
    sections: Sequence[ReportSection],
    twins: Mapping[str, Mapping[str, Any]],
    made_from: str = "",
) -> Path:
    """FOLDER/NAME, the page of some sections; FOLDER/analysis/TWIN, the same as JSON, before it.

    Raises:
        InputError: see `make_twins_folder`.
    """
    make_twins_folder(folder)
    for twin, body in twins.items():
        data = json.dumps(body, indent=1).encode() + b"\n"
        write_out(folder, f"{TWINS}/{twin}", data)
    write_out(folder, name, page(title, sections, made_from).encode())
    return folder / name


def _file_of(section: ReportSection) -> str:
    """The name of a section's twin: that of the section, and of its query set if it has one."""
    parts = [section.name.replace(" ", "-"), section.query_set, "json"]
    return ".".join(part for part in parts if part)
