"""Tables as Markdown, with columns of one width so that they also read well as plain text."""

import re
from collections.abc import Sequence

from raypipe.errors import visible

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text after them."""


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: the header, a rule and a line for each row, cells as they are given.

    A cell may hold no line break and no bare `|`; `cell` makes such a text of any other.
    """
    lines = [header, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    padded = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    return [padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]]


def cell(text: str) -> str:
    """The text on one line, `|` escaped, and control characters written out."""
    return visible(" ".join(text.split())).replace("|", "\\|")


def bullet(text: str) -> str:
    """The text as an item of a list; a star at its beginning begins no list of its own."""
    return f"- \\{text}" if text.startswith("*") else f"- {text}"


def plain(text: str) -> str:
    """The text in one line: blanks of any kind become one, and control characters U+FFFD."""
    return _UNSAFE.sub("\ufffd", " ".join(text.split()))
