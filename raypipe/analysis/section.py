"""What an analysis says: tables, charts and notes, from which text, JSON and the page are made."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Value = str | int | float | None
"""A cell of a table; None where there is nothing to say."""
SMALLEST_P = 0.0001


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over a common axis."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """Name -> points in the order of x."""
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """One analysis of one query set."""

    name: str
    query_set: str
    tables: Sequence[Table]
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    """What does not fit a table, for programs."""
    lead: str = ""
    """What to know first, in a sentence."""

    def to_json(self) -> dict[str, Any]:
        """All of it, for `json.dumps`."""
        return asdict(self)


def shown(value: Value, column: str = "") -> str:
    """A cell as text: four digits after the point, thousands apart, `-` for nothing.

    A p below 0.0001, in a column `p` or `p (...)`, is shown as such: it is never 0.
    """
    if value is None:
        return "-"
    if column.split(" ")[0] == "p" and isinstance(value, float) and value < SMALLEST_P:
        return f"<{SMALLEST_P}"
    if isinstance(value, str):
        return " ".join(value.split()).replace("|", "\\|")
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def to_text(section: Section) -> str:
    """The section's tables as Markdown, then its notes."""
    blocks = [f"## {section.name}: {section.query_set}", ""]
    blocks += [section.lead, ""] if section.lead else []
    for table in section.tables:
        rows = [[*map(shown, row, table.columns)] for row in table.rows]
        cells = [list(table.columns), *rows]
        blocks += [f"{table.title}", "", *_lines(cells), ""]
    return "\n".join([*blocks, *(f"- {note}" for note in section.notes)]).rstrip()


def _lines(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    padded = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return [padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]]
