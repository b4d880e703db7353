"""The finding about each rule."""

from collections.abc import Sequence
from dataclasses import dataclass

from raypipe.errors import InputError


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule of a board: whether it applies, whether it holds, and what was found."""

    rule: str
    applies: bool
    ok: bool
    detail: str
    """What was found, or why the rule does not apply; for the user."""

    def to_json(self) -> dict[str, str | bool]:
        """The finding in check.json."""
        return {"rule": self.rule, "applies": self.applies, "ok": self.ok, "told": self.detail}


def holds(rule: str, detail: str) -> Finding:
    """A rule that holds."""
    return Finding(rule, True, True, detail)


def broken(rule: str, detail: str) -> Finding:
    """A rule that is broken."""
    return Finding(rule, True, False, detail)


def does_not_apply(rule: str, why: str) -> Finding:
    """A rule that this board, or this file, does not have."""
    return Finding(rule, False, True, why)


def refuse_broken(findings: Sequence[Finding]) -> None:
    """Returns nothing if every rule that applies holds.

    Raises:
        InputError: every broken rule.
    """
    problems = [f"{finding.rule}: {finding.detail}" for finding in findings if not finding.ok]
    if problems:
        raise InputError(problems)
