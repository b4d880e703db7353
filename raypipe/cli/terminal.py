"""Markdown on stdout: as it is in a file or a pipe, with tables that fit on a terminal."""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raypipe.errors import visible
from raypipe.markdown import cell, markdown_table

Rows = Sequence[Sequence[str]]
GAP = 3
"""Blanks between two columns."""
NARROWEST = 8
"""Characters below which a word is broken only if the terminal leaves no choice."""
_BORDER = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"[-+<]?[\d,.]+%?|-|")


def show(text: str) -> None:
    """Print a text in Markdown.

    On a terminal its tables are drawn as wide as the terminal at most: texts are folded at blanks,
    and columns for which there is no room follow in a table of their own, which begins with the
    first column again. Nothing is cut.
    """
    if not sys.stdout.isatty():
        print(text, flush=True)
        return
    width, height = shutil.get_terminal_size()  # rich takes 80 where TERM is dumb
    text = visible(text)
    console = Console(file=sys.stdout, highlight=False, width=width, height=height)
    for block in _blocks(text.splitlines()):
        if isinstance(block, str):
            title = re.match("#{1,3} ", block)
            line = Text(block[title.end() :], "bold") if title else Text(block)
            console.print(line, soft_wrap=True)
        else:
            for number, drawn in enumerate(tables_of(block, console.width)):
                console.print(*(["", drawn] if number else [drawn]), sep="\n")
    sys.stdout.flush()


def show_columns(lines: Rows) -> None:
    """Print lines of cells, the header first: a table on a terminal, with tabs elsewhere."""
    if sys.stdout.isatty():
        show("\n".join(markdown_table(lines[0], [[*map(cell, line)] for line in lines[1:]])))
    else:
        print("\n".join("\t".join(line) for line in lines), flush=True)


def tables_of(lines: Rows, width: int) -> Iterator[Table]:
    """Tables of at most `width` characters that hold all cells; the first line is the header."""
    columns = list(zip(*lines, strict=True))
    least = [min(_longest_word(column), max(NARROWEST, width // 3)) for column in columns]
    most = [max(map(cell_len, column)) for column in columns]
    for places in _groups(least, width):
        widths = _fitted([least[i] for i in places], [most[i] for i in places], width)
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for place, wide in zip(places, widths, strict=True):
            header, *cells = columns[place]
            right = place > 0 and all(_NUMBER.fullmatch(each) for each in cells)
            table.add_column(
                Text(header), width=wide, overflow="fold", justify="right" if right else "left"
            )
        for line in lines[1:]:
            table.add_row(*(Text(line[place]) for place in places))
        yield table


def _groups(least: Sequence[int], width: int) -> list[list[int]]:
    """The places of the columns of each table; the first column is in all of them."""
    groups, room = [[0]], width - least[0]
    for place in range(1, len(least)):
        if least[place] + GAP > room and len(groups[-1]) > 1:
            groups.append([0])
            room = width - least[0]
        groups[-1].append(place)
        room -= least[place] + GAP
    return groups


def _fitted(least: Sequence[int], most: Sequence[int], width: int) -> list[int]:
    """A width for each column: what it would need, less where all do not fit, from the widest."""
    widths, room = list(most), width - GAP * (len(most) - 1)
    while sum(widths) > room:
        spare = [wide - low for wide, low in zip(widths, least, strict=True)]
        if max(spare) <= 0:  # not even the longest words fit: the widest gives way
            spare = widths
        at = max(range(len(widths)), key=lambda i: (spare[i] > 0, widths[i]))
        if widths[at] == 1:
            break
        widths[at] -= 1
    return widths


def _longest_word(cells: Sequence[str]) -> int:
    return max(cell_len(word) for each in cells for word in (each.split() or [""]))


def _blocks(lines: Sequence[str]) -> Iterator[str | Rows]:
    """Lines as they are, and each table as the cells of its lines, without the rule."""
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        if end - at >= 2 and re.fullmatch(r"\|[-|]+\|", lines[at + 1]):
            rows = [_cells(line) for line in (lines[at], *lines[at + 2 : end])]
            if all(len(row) == len(rows[0]) for row in rows):
                yield rows
                at = end
                continue
        yield lines[at]
        at += 1


def _cells(line: str) -> list[str]:
    return [part.strip().replace("\\|", "|") for part in _BORDER.split(line)[1:-1]]
