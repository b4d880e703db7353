"""Lines on stderr: as they are on a terminal, with the time before them in a file or a pipe."""

import sys
import time

from raypipe.errors import visible


def stamped(line: str, *, terminal: bool) -> str:
    """The `visible` line, behind the local time unless a person watches it come."""
    line = visible(line)
    return line if terminal else f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}"


def to_stderr(line: str) -> None:
    """Send a message to stderr; stdout is for results only."""
    print(stamped(line, terminal=sys.stderr.isatty()), file=sys.stderr, flush=True)
