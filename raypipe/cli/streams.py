"""stdout and stderr as a command finds them: closed, full, or read by nobody any more."""

import logging
import os
import sys
from typing import Any, TextIO, cast

from raypipe.errors import visible

LEFT = "a pipe was closed before all was written to it, as stdout is by `| head`"
"""The reason of an end that nobody reads any more."""


def open_closed() -> None:
    """Open what was closed (`>&-`), to nowhere; a file opened later would else take its place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


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
        """See `visible`."""
        return visible(super().format(record))


def guard_terminal() -> None:
    """Let no file's content command the terminal: of what a command prints, and of its log."""
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, Visible(sys.stdout))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleLines("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler])


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
        print(visible(line), file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Lead the stream to nowhere: what it holds would fail again as Python ends, with code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
