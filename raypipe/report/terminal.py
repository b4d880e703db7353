"""A query's candidates as text for a terminal: ranks in columns, texts cut to the width."""

import io
import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raypipe.report.section import Value, plain, shown
from raypipe.report.show import NOT_JUDGED, Candidate, Place

WIDTH = 100
"""Columns where there is no terminal that has its own."""
NUM_LINES = 2
"""Of a candidate's text."""
LEAST_TEXT = 40
"""Columns for texts; where the systems leave fewer, the ranks stand above the text instead."""


def aligned(candidates: Sequence[Candidate], systems: Sequence[str], *, width: int = WIDTH) -> str:
    """Each candidate's rank in every system with its true score below, and beside them its text.

    A score in brackets is of a stage below, which the system left as it was. Texts are cut after
    two lines. No line is longer than `width`.
    """
    ranks = [[_place(each.places.get(name), name) for name in systems] for each in candidates]
    lengths = [
        max(len(line) for cell in (name, *(row[at] for row in ranks)) for line in cell.split("\n"))
        for at, name in enumerate(systems)
    ]
    beside = sum(lengths) + 2 * len(systems) + LEAST_TEXT <= width
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    if beside:
        for name, length in zip(systems, lengths, strict=True):
            table.add_column(name, justify="right", no_wrap=True, min_width=length)
        table.add_column("", overflow="fold")
    else:
        table.add_column("", overflow="fold")
    left = width - (sum(lengths) + 2 * len(systems) if beside else 0)
    for each, row in zip(candidates, ranks, strict=True):
        told = _told(each, left)
        if beside:
            table.add_row(*map(Text, row), Text(told))
        else:
            places = zip(systems, row, strict=True)
            stands = "  ".join(f"{name} {' '.join(cell.split())}" for name, cell in places)
            table.add_row(Text(f"{stands}\n{told}"))
    return _printed(table, width)


def values(columns: Sequence[str], rows: Sequence[Sequence[Value]], *, width: int = WIDTH) -> str:
    """A table of numbers under their names; names too long for the width are folded."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell, name)) for cell, name in zip(row, columns, strict=True)))
    return _printed(table, width)


def _printed(table: Table, width: int) -> str:
    """The table's lines, without colours and blanks at their ends."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n")


def _place(place: Place | None, system: str) -> str:
    if place is None:
        return "-\n"
    score = f"{place.score:.4g}" if math.isfinite(place.score) else str(place.score)
    return f"{place.rank:,}\n" + (score if place.scored_by == system else f"({score})")


def _told(candidate: Candidate, width: int) -> str:
    """Grade and id, two lines of text, the words that it shares with the query, and a blank."""
    grade = NOT_JUDGED if candidate.grade is None else f"grade {candidate.grade}"
    lines = folded(plain(candidate.text) or "no text", width)
    if len(lines) > NUM_LINES:
        lines = [*lines[: NUM_LINES - 1], f"{folded(lines[NUM_LINES - 1], width - 4)[0]} ..."]
    shared = f"shared: {', '.join(candidate.shared)}" if candidate.shared else "no shared word"
    return "\n".join([f"{grade}  {plain(candidate.name)}", *lines, shared, ""])


def folded(text: str, width: int) -> list[str]:
    """The text's lines of at most `width` columns; words longer than a line are broken."""
    lines = Text(text).wrap(Console(width=width), width, overflow="fold")
    return [line.plain.rstrip() for line in lines]
