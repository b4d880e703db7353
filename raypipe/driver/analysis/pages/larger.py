"""Runs over larger collections in two workspaces: which may be compared, and what is said of them.

A run over a larger collection finds other passages than one over the recipe's own, so the two are
not compared, whatever their names.
"""

from collections.abc import Sequence

from raypipe.driver.analysis.measuring import outside
from raypipe.driver.analysis.pages.common import Both
from raypipe.driver.report.table import starred

Pair = tuple[str, str]


def alike(both: Both, named: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """The pairs of systems over one collection, each once, and a note on those that are not."""
    kept: list[Pair] = []
    apart: list[Pair] = []
    for pair in dict.fromkeys(named):
        where = [f.larger_collection(name) for f, name in zip(both, pair, strict=True)]
        (kept if where[0] == where[1] else apart).append(pair)
    if not apart:
        return kept, []
    names = ", ".join(shown_pair(a, b, None) for a, b in apart)
    return kept, [f"not compared, since A and B rank different collections there: {names}"]


def larger_of(both: Both, query_set: str, named: Sequence[Pair]) -> list[str]:
    """Notes on the compared runs of a larger collection: what the star means, lines left out."""
    notes: list[str] = []
    for letter, finished, names in zip("AB", both, zip(*named, strict=True), strict=False):
        meaning, *lost = outside(finished, query_set, [*dict.fromkeys(names)]) or [""]
        notes += [meaning] if meaning and meaning not in notes else []
        notes += [f"in {letter}: {line}" for line in lost]
    return notes


def shown_pair(a: str, b: str, larger_collection: str | None) -> str:
    """The systems' names, one of each workspace, with a star if they rank a larger collection."""
    return starred(a if a == b else f"{a} and {b}", larger_collection)
