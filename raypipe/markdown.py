"""Tables and texts for people: values as cells, and Markdown that also reads well as plain text."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from raypipe.errors import visible

Value = str | int | float | None
"""A cell of a table; None where there is nothing to say."""
SMALLEST_P = 0.0001
COARSE = ("ms/query", "inferences", "computed", "seconds")
"""Beginnings of the names of columns whose numbers have one digit after the point, or none."""
SIGNED = ("difference", "relative change", "low", "high")
"""Columns of differences, which have a sign."""
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text after them."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns; each page, file or terminal renders it in its own way."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    padded: bool = True
    """Whether the columns of Markdown have one width; long texts are better without."""

    def has_numbers(self, place: int) -> bool:
        """Whether a column has a number."""
        return any(isinstance(row[place], int | float) for row in self.rows)

    def cells(self) -> list[list[str]]:
        """The header and the rows as text; see `shown`."""
        rows = [[*map(shown, row, self.columns)] for row in self.rows]
        return [[*map(shown, self.columns)], *rows]


class Text(str):
    """Lines and tables, one below the other. As a string it is Markdown."""

    parts: Sequence[str | Table]

    def __new__(cls, parts: Iterable[str | Table]) -> "Text":
        """The text of these parts; a string is a line."""
        parts = [*parts]
        lines = (_lines(part) for part in parts)
        text = super().__new__(cls, "\n".join(line for some in lines for line in some))
        text.parts = parts
        return text

    def __getnewargs__(self) -> tuple[Sequence[str | Table]]:  # type: ignore[override]
        """The parts, of which a copy is made."""
        return (self.parts,)

    def trimmed(self) -> "Text":
        """The text without the empty line at its end, if there is one."""
        return Text(self.parts[:-1]) if self.parts and not self.parts[-1] else self


def _lines(part: str | Table) -> list[str]:
    if isinstance(part, str):
        return [part]
    return markdown_table(part.columns, part.rows, padded=part.padded)


def joined(texts: Iterable[Text], *, apart: bool = False) -> Text:
    """The texts, each on lines of its own, and `apart` with an empty line between two."""
    gap = [""] if apart else []
    parts = [part for text in texts for part in (*gap, *text.parts)]
    return Text(parts[len(gap) :])


def shown(value: Value, column: str = "") -> str:
    """A cell as text: four digits after the point, thousands apart, `-` for nothing.

    Times and inferences have one digit after the point, or none if they are whole, and differences
    a sign. A p below 0.0001, in a column `p` or `p (...)`, is shown as such: it is never 0. Texts
    are on one line, with their control characters written out.
    """
    if isinstance(value, str):
        return visible(" ".join(value.split()))
    if value is None or not math.isfinite(value):
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if column.split(" ")[0] == "p" and value < SMALLEST_P:
        return f"<{SMALLEST_P}"
    if column in SIGNED:
        return f"{value:+.4f}"
    if column.startswith(COARSE):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.1f}"
    return f"{value:.4f}"


def markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[Value]], *, padded: bool = True
) -> list[str]:
    """The lines of a table: the header, a rule and a line for each row."""
    cells = Table("", columns, rows).cells()
    lines = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    widths = [max(map(len, column)) if padded else 0 for column in zip(*lines, strict=True)]
    header, *below = (
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
    rule = "|".join("-" * (width + 2 if padded else 3) for width in widths)
    return [header, f"|{rule}|", *below]


_BORDER = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|[-|]+\|")


def read_markdown(text: str) -> Text:
    """The text that a workspace's table.md has the Markdown of, as `Text` wrote it."""
    parts, lines = list[str | Table](), text.split("\n")
    while lines:
        if len(lines) > 1 and lines[0].startswith("|") and _RULE.fullmatch(lines[1]):
            table = [*takewhile(lambda line: line.startswith("|"), lines)]
            columns, _, *rows = ([*map(_unescaped, _BORDER.split(line)[1:-1])] for line in table)
            parts.append(Table("", columns, rows))
        else:
            table = lines[:1]
            parts += table
        lines = lines[len(table) :]
    return Text(parts)


def _unescaped(cell: str) -> str:
    return cell.strip().replace("\\|", "|")


def bullet(text: str) -> str:
    """The text as an item of a list; a star at its beginning begins no list of its own."""
    return f"- \\{text}" if text.startswith("*") else f"- {text}"


def plain(text: str) -> str:
    """The text in one line: blanks of any kind become one, and control characters U+FFFD."""
    return _UNSAFE.sub("\ufffd", " ".join(text.split()))
