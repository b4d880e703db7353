"""Output of commands: stdout and stderr as they are found, and tables that fit on a terminal."""

import io
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TextIO, cast

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text as Styled

from raypipe.errors import in_one_cell, visible
from raypipe.markdown import Table, Text, plain

LEFT = "a pipe was closed before all was written to it, as stdout is by `| head`"
"""The reason of an end that nobody reads any more."""
WIDTH = 100
"""Columns where there is no terminal that has its own."""


class _Lasting(io.FileIO):
    """A file of which a write that failed is kept, and not raised."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """The number of bytes that were taken."""
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            return memoryview(data).nbytes


def make_lasting() -> None:
    """Let work go on where stdout or stderr cannot be written; see `stdout_error`.

    A closed stream (`>&-`) is opened on the null device. A file that is opened later would
    otherwise take its place.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__"):  # else another program's own
            stream.flush()
            lasting = io.TextIOWrapper(
                io.BufferedWriter(_Lasting(stream.fileno(), "w", closefd=False)),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering or stream.write_through,
            )
            setattr(sys, name, lasting)


def stdout_error() -> OSError | None:
    """Write what stdout still holds; the error if not all could be written."""
    sys.stdout.flush()
    stream = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    error = getattr(getattr(getattr(stream, "buffer", None), "raw", None), "error", None)
    return error if isinstance(error, OSError) else None


class Visible:
    """A terminal on which control characters are seen, and not obeyed, but for those of rich."""

    def __init__(self, terminal: TextIO) -> None:
        """Everything but what is written is the terminal's own."""
        self.rich_proxied_file = terminal  # by this name rich finds what it writes to

    def write(self, text: str) -> int:
        """Write the text; see `visible`."""
        return self.rich_proxied_file.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        """The terminal's."""
        return getattr(self.rich_proxied_file, name)


class VisibleLines(logging.Formatter):
    """Lines of a log in which control characters are seen."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the formatted record with its control characters made visible."""
        return visible(super().format(record))


def guard_terminal() -> None:
    """Let no file's content command the terminal: of what a command prints, and of its log."""
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, Visible(sys.stdout))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleLines("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler])


def say(line: str) -> None:
    """Print a line on stderr."""
    print(visible(line), file=sys.stderr, flush=True)


GAP = 3
"""Blanks between two columns."""
NARROWEST = 8
"""Characters below which a word is broken only if the terminal leaves no choice."""
_NUMBER = re.compile(r"[-+<]?[\d,.]+%?|-|")


def show(text: str) -> None:
    """Print a text.

    On a terminal its tables are drawn as wide as the terminal at most: texts are folded at blanks,
    and columns for which there is no room follow in a table of their own, which begins with the
    first column again. Nothing is cut. Elsewhere, and of a string, it is printed as it is.
    """
    if not sys.stdout.isatty():
        print(text, flush=True)
        return
    width, height = shutil.get_terminal_size()  # rich takes 80 where TERM is dumb
    console = Console(file=sys.stdout, highlight=False, width=width, height=height)
    parts = text.trimmed().parts if isinstance(text, Text) else text.splitlines()
    for part in parts:
        if isinstance(part, Table):
            for number, drawn in enumerate(drawn_tables(part, console.width)):
                console.print(*(["", drawn] if number else [drawn]), sep="\n")
            continue
        for line in visible(part).split("\n"):
            title = re.match("#{1,3} ", line)
            styled = Styled(line[title.end() :], "bold") if title else Styled(line)
            console.print(styled, soft_wrap=True)
    sys.stdout.flush()


def show_columns(lines: Sequence[Sequence[str]]) -> None:
    """Print lines of cells, the header first: a table on a terminal, with tabs elsewhere.

    A cell's own tabs, line ends and other control characters are written out.
    """
    lines = [[*map(in_one_cell, line)] for line in lines]
    if sys.stdout.isatty():
        show(Text([Table("", lines[0], lines[1:])]))
    else:
        print("\n".join(map("\t".join, lines)), flush=True)


def drawn_tables(table: Table, width: int) -> Iterator[Drawn]:
    """Tables of at most `width` characters that together hold all cells of a table."""
    lines = table.cells()
    columns = list(zip(*lines, strict=True))
    least = [min(_longest_word(column), max(NARROWEST, width // 3)) for column in columns]
    for places in _groups(least, width):
        drawn = Drawn(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for place in places:
            header, *cells = columns[place]
            right = place > 0 and all(_NUMBER.fullmatch(each) for each in cells)
            justify: Literal["left", "right"] = "right" if right else "left"
            drawn.add_column(Styled(header), overflow="fold", justify=justify)
        for line in lines[1:]:
            drawn.add_row(*(Styled(line[place]) for place in places))
        yield drawn


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


def _longest_word(cells: Sequence[str]) -> int:
    return max(cell_len(word) for each in cells for word in (each.split() or [""]))


def print_result(result: object, text: str, *, as_json: bool) -> None:
    """One JSON object, or a text, on stdout."""
    if as_json:
        print(json.dumps(result), flush=True)
    else:
        show(text)


def terminal_width() -> int:
    """The terminal's columns, or those of the variable COLUMNS; 100 where there is no terminal."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def folded(text: str, width: int) -> list[str]:
    """The text's lines of at most `width` columns; words longer than a line are broken."""
    lines = Styled(text).wrap(Console(width=width), width, overflow="fold")
    return [line.plain.rstrip() for line in lines]


def beginning(text: str, width: int, num_lines: int) -> list[str]:
    """The first lines of a text, its blanks and control characters made plain; ` ...` if cut."""
    lines = folded(plain(text), width)
    if len(lines) <= num_lines:
        return lines
    *whole, last = lines[:num_lines]
    return [*whole, f"{folded(last, width - 4)[0]} ..."]
