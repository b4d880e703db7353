"""Prints results to stdout."""

import json
import shutil
import sys

from raypipe.cli.terminal import show


def print_result(result: object, text: str, *, as_json: bool) -> None:
    """One JSON object, or a text in Markdown, on stdout."""
    if as_json:
        print(json.dumps(result), flush=True)
    else:
        show(text)


def terminal_width() -> int:
    """The terminal's columns, or those of the variable COLUMNS; 100 where there is no terminal."""
    from raypipe.report.terminal import WIDTH

    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
