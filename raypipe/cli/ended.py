"""How a command ended, and the last line on stderr, which says so."""

from typing import NamedTuple

KINDS = {
    1: "a bug in raypipe",
    2: "bad input or configuration",
    3: "incomplete, corrupt, or storage failed",
    4: "refused",
    5: "a limit was exceeded",
    130: "interrupted; the same command resumes",
    143: "interrupted; the same command resumes",
}
"""What an exit code means, where the lines above have said why."""


class Ended(NamedTuple):
    """The end of a command."""

    exit_code: int
    reason: str
    told: bool = False
    """Whether the reason was printed; the last line then says only what the exit code means."""

    def line(self) -> str:
        """The last line on stderr."""
        reason = KINDS.get(self.exit_code, self.reason) if self.told else self.reason
        return f"raypipe: exit {self.exit_code} ({reason})"
