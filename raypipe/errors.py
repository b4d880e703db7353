"""The few ways an invocation can end badly, each with its exit code."""

from collections.abc import Sequence

LEAVE_INPUTS = "An input must rest while it is read; run the same command again"
"""How a message about an input that changed ends."""


def first_line(error: BaseException) -> str:
    """Of an error's message; its kind where it has none."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


class RaypipeError(Exception):
    """An ending that a user can act on; `exit_code` is what the process returns."""

    exit_code = 1


class InputError(RaypipeError, ValueError):
    """Bad input or configuration: every problem found, one a line.

    Each problem names what, where (file and line, or row), expected, found and the remedy.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type, tuple[list[str]]]:
        """Pickle with every problem, so that a worker's error reaches the driver whole."""
        return type(self), (self.problems,)


class IncompleteError(RaypipeError):
    """Something planned is missing: a shard, a manifest, a query."""

    exit_code = 3


class CorruptError(RaypipeError):
    """Stored bytes are not the bytes that were committed."""

    exit_code = 3


class RefusedError(RaypipeError):
    """A guard said no: `--frozen`, or a lease that is alive."""

    exit_code = 4


class LimitError(RaypipeError):
    """A limit the user set was passed."""

    exit_code = 5


class Interrupted(RaypipeError):
    """A signal asked the invocation to end; what is committed stays, the rerun resumes."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class RowsFailed(ArithmeticError):
    """Rows that have no finite value: they go to the quarantine, the others are computed."""

    def __init__(self, rows: Sequence[int], reason: str) -> None:
        self.rows, self.reason = tuple(int(row) for row in rows), reason
        shown = ", ".join(map(str, self.rows[:10]))
        super().__init__(f"{len(self.rows)} rows: {reason}; first rows [{shown}]")

    def __reduce__(self) -> tuple[type, tuple[tuple[int, ...], str]]:
        """Pickle whole, so that a worker's error reaches the driver."""
        return type(self), (self.rows, self.reason)
