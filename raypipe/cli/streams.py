"""stdout and stderr as a command finds them: closed, full, or read by nobody any more."""

import io
import os
import sys
from typing import Any

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
    error = getattr(getattr(getattr(sys.stdout, "buffer", None), "raw", None), "error", None)
    return error if isinstance(error, OSError) else None


def say(line: str) -> None:
    """Print a line on stderr."""
    print(line, file=sys.stderr, flush=True)
