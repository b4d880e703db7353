"""A query's candidates in every system: the first of each, and those judged relevant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from raypipe.analysis.section import Table, Value

NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a system has a candidate."""

    rank: int
    score: float
    """The true score, which a run file may have lowered."""
    scored_by: str
    """The stage that scored it: below a reranker's first k, the stage before it."""


Lists: TypeAlias = Mapping[str, Mapping[int, Place]]
"""System -> row of each of its candidates -> place."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One passage or document, and where the systems have it."""

    name: str
    """Its original id."""
    grade: int | None
    """None if it was not judged."""
    text: str
    shared: Sequence[str]
    """The query's words that it has too."""
    places: Mapping[str, Place]
    """System -> place; without the systems that do not have it."""


def chosen(lists: Lists, relevant: Mapping[int, int], num: int) -> list[int]:
    """The rows to show: every system's first `num`, and the `num` relevant ones of highest grade.

    They are in the order of the last system, then of the one before it, and so on. Relevant ones
    that no system has come last, higher grades first, then by row.

    Args:
        lists: see `Lists`.
        relevant: row -> grade.
        num: of each system.
    """
    first = {row for own in lists.values() for row, place in own.items() if place.rank <= num}
    missed = sorted(relevant.keys() - first, key=lambda row: (-relevant[row], row))[:num]
    last_first = [*lists.values()][::-1]

    def order(row: int) -> tuple[float, ...]:
        ranks = [own[row].rank if row in own else float("inf") for own in last_first]
        return (*ranks, -relevant.get(row, 0), row)

    return sorted([*first, *missed], key=order)


def side_by_side(candidates: Sequence[Candidate], systems: Sequence[str], unit: str) -> Table:
    """A row for each candidate: id, grade, rank and true score in every system, words and text.

    Where a stage below scored some of a system's candidates, a column says which stage did.
    """
    below = {
        name
        for candidate in candidates
        for name, place in candidate.places.items()
        if place.scored_by != name
    }
    columns = [unit.removesuffix("s"), "grade"]
    for name in systems:
        columns += [name, f"{name} score", *([f"{name} scored by"] if name in below else [])]
    rows: list[list[Value]] = []
    for candidate in candidates:
        grade = NOT_JUDGED if candidate.grade is None else candidate.grade
        row: list[Value] = [candidate.name, grade]
        for name in systems:
            place = candidate.places.get(name)
            row += [None, None] if place is None else [place.rank, place.score]
            if name in below:
                row.append(None if place is None else place.scored_by)
        rows.append([*row, ", ".join(candidate.shared) or "none", candidate.text])
    title = f"The first {unit} of every system, and the relevant ones"
    return Table(title, [*columns, "shared words", "text"], rows)
