"""What became of each rule."""

from collections.abc import Sequence
from dataclasses import dataclass

from raypipe.errors import InputError


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule of a board: whether it applies, whether it holds, and what was found."""

    rule: str
    applies: bool
    ok: bool
    told: str


def holds(rule: str, told: str) -> Finding:
    """A rule that holds."""
    return Finding(rule, True, True, told)


def broken(rule: str, told: str) -> Finding:
    """A rule that does not."""
    return Finding(rule, True, False, told)


def does_not_apply(rule: str, why: str) -> Finding:
    """A rule that this board, or this file, does not have."""
    return Finding(rule, False, True, why)


def refuse_broken(findings: Sequence[Finding]) -> None:
    """Nothing, where every rule that applies holds.

    Raises:
        InputError: every broken rule.
    """
    problems = [f"{finding.rule}: {finding.told}" for finding in findings if not finding.ok]
    if problems:
        raise InputError(problems)
