"""stdout and stderr as a command finds them: closed, full, or read by nobody any more."""

import io
import logging
import os
import sys
from typing import Any, TextIO, cast

from raypipe.errors import visible

LEFT = "a pipe was closed before all was written to it, as stdout is by `| head`"
"""The reason of an end that nobody reads any more."""


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

    What was closed (`>&-`) leads to nowhere; a file opened later would else take its place.
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
        """See `visible`."""
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
