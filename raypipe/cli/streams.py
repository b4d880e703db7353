"""stdout and stderr as a command finds them: closed, full, or read by nobody any more."""

import os
import sys
from typing import TextIO

LEFT = "a pipe was closed before all was written to it, as stdout is by `| head`"
"""The reason of an end that nobody reads any more."""


def open_closed() -> None:
    """Open what was closed (`>&-`), to nowhere; a file opened later would else take its place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def flush_stdout() -> OSError | None:
    """Write what stdout still holds; the error if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _drop(sys.stdout)
        return error
    return None


def say(line: str) -> None:
    """Print a line on stderr; where that fails, as on a full disk, the exit code says it alone."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Lead the stream to nowhere: what it holds would fail again as Python ends, with code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
