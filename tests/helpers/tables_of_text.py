"""Tables of text: a case, and indented below it what is made of it; a blank line between cases."""

import sys
from collections.abc import Callable
from pathlib import Path


def cases(text: str) -> list[str]:
    """The first line of each case."""
    return [block.split("\n    ")[0] for block in text.strip().split("\n\n")]


def written(text: str, outcome: Callable[[str], list[str] | None]) -> str:
    """The table with the outcome of each case now; None for a line that is no case."""
    blocks = [[case, *(outcome(case) or [])] for case in cases(text)]
    return "\n\n".join("\n    ".join(block) for block in blocks) + "\n"


def write_anew(table: Path, now: Callable[[str], str]) -> None:
    """Write a table if this program was asked to."""
    if "--write" in sys.argv:
        table.write_text(now(table.read_text()))
