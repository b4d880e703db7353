"""What an analysis says: tables, charts and notes, from which text, JSON and the page are made."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from raypipe.markdown import bullet, cell, markdown_table

Value = str | int | float | None
"""A cell of a table; None where there is nothing to say."""
SMALLEST_P = 0.0001
COARSE = ("ms/query", "inferences", "computed", "seconds")
"""Beginnings of the names of columns whose numbers have one digit after the point, or none."""
SIGNED = ("difference", "low", "high")
"""Columns of differences, which have a sign."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]

    def has_numbers(self, place: int) -> bool:
        """Whether a column has a number."""
        return any(isinstance(row[place], int | float) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over a common axis."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """Name -> points in the order of x."""
    log_x: bool = False
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Name -> the interval around its only point; the names are then beside the vertical axis, and
    a name without an interval is the value that the others are compared with."""

    @property
    def has_points(self) -> bool:
        """Whether there is anything to draw."""
        return any(self.lines.values())


@dataclass(frozen=True, slots=True)
class Section:
    """One analysis of one query set."""

    name: str
    query_set: str
    tables: Sequence[Table]
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Name -> a longer text, such as a file."""
    lead: str = ""
    """What to know first, in a sentence."""
    facts: Mapping[str, Value] = field(default_factory=dict)
    """What to know next: label -> value."""

    @property
    def heading(self) -> str:
        """The analysis, and the query set if it is of one."""
        return plain(": ".join(part for part in (self.name, self.query_set) if part))

    def to_json(self) -> dict[str, Any]:
        """All of it, for `json.dumps`."""
        return asdict(self)


def shown(value: Value, column: str = "") -> str:
    """A cell as text: four digits after the point, thousands apart, `-` for nothing.

    Times and inferences have one digit after the point, or none if they are whole, and differences
    a sign. A p below 0.0001, in a column `p` or `p (...)`, is shown as such: it is never 0.
    """
    if value is None:
        return "-"
    if column.split(" ")[0] == "p" and isinstance(value, float) and value < SMALLEST_P:
        return f"<{SMALLEST_P}"
    if isinstance(value, str):
        return cell(plain(value))
    if isinstance(value, int):
        return f"{value:,}"
    if column in SIGNED:
        return f"{value:+.4f}"
    if column.startswith(COARSE):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.1f}"
    return f"{value:.4f}"


def to_text(section: Section) -> str:
    """The section's tables as Markdown, then its notes."""
    blocks = [f"## {section.name}: {section.query_set}", ""]
    blocks += [section.lead, ""] if section.lead else []
    for table in section.tables:
        rows = [[*map(shown, row, table.columns)] for row in table.rows]
        blocks += [f"{table.title}", "", *markdown_table(table.columns, rows), ""]
    return "\n".join([*blocks, *map(bullet, section.notes)]).rstrip()


UNSHOWN = "\ufffd"
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text after them."""


def plain(text: str) -> str:
    """The text in one line: blanks of any kind become one, and control characters U+FFFD."""
    return _UNSAFE.sub(UNSHOWN, " ".join(text.split()))


def cut(text: str, num_characters: int) -> str:
    """The first characters, with ` ...` if there are more."""
    return text if len(text) <= num_characters else f"{text[:num_characters].rstrip()} ..."
