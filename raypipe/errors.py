"""The errors that end an invocation, each with its exit code."""

from collections.abc import Sequence

LEAVE_INPUTS = "An input must not change while it is read; run the same command again"
"""The end of every message about an input file that changed while it was read."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its class name if the message is empty."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


class RaypipeError(Exception):
    """An error that a user can act on; `exit_code` is the exit code of the process."""

    exit_code = 1


class InputError(RaypipeError, ValueError):
    """Bad input or configuration. The message lists every problem found, one per line.

    Each problem says what is wrong, where (file and line, or row), what was expected, what was
    found and what to do.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type, tuple[list[str]]]:
        """Pickles with every problem, so that a worker's error reaches the driver complete."""
        return type(self), (self.problems,)


class IncompleteError(RaypipeError):
    """Something planned is missing: a shard, a manifest, a query."""

    exit_code = 3


class CorruptError(RaypipeError):
    """Stored bytes are not the bytes that were committed."""

    exit_code = 3


class RefusedError(RaypipeError):
    """The invocation was refused, by `--frozen` or by another driver's live lease."""

    exit_code = 4


class LimitError(RaypipeError):
    """A limit that the user set was exceeded."""

    exit_code = 5


class Interrupted(RaypipeError):
    """A signal ended the invocation. Committed work is kept; the same command resumes."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class RowsFailed(ArithmeticError):
    """Rows without a finite value. They are put into quarantine; the others are computed."""

    def __init__(self, rows: Sequence[int], reason: str) -> None:
        self.rows, self.reason = tuple(int(row) for row in rows), reason
        shown = ", ".join(map(str, self.rows[:10]))
        super().__init__(f"{len(self.rows)} rows: {reason}; first rows [{shown}]")

    def __reduce__(self) -> tuple[type, tuple[tuple[int, ...], str]]:
        """Pickles with rows and reason, so that a worker's error reaches the driver complete."""
        return type(self), (self.rows, self.reason)
