"""What the script gdeval needs, with which ir_measures computes ERR and nDCG of gains 2^grade - 1.

Source: gdeval.pl, TREC 2010 Web track. It writes five digits after the point, takes whole numbers
for ids of queries, drops what comes before a hyphen in them, and ends at a grade above 4.
"""

from collections.abc import Mapping
from typing import TypeVar

import ir_measures

MAX_GRADE = 4
"""ERR divides gains by 2^4, so a higher grade has no probability."""
Value = TypeVar("Value")


def by_gdeval(measure: ir_measures.Measure) -> bool:
    """Whether ir_measures computes a measure by this script."""
    return bool(measure.NAME == "ERR" or measure.params.get("dcg") == "exp-log2")


def numbered(judgements: Mapping[str, Value]) -> dict[str, str]:
    """Query id -> a number in its place, from 0 in the given order."""
    return {query: str(number) for number, query in enumerate(judgements)}


def problems_of(
    parsed: Mapping[str, ir_measures.Measure], judgements: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """A line for each measure that the judgements' grades do not allow."""
    named = [name for name, measure in parsed.items() if by_gdeval(measure)]
    if not named:
        return []
    found = next(
        (
            (query, passage, grade)
            for query, grades in judgements.items()
            for passage, grade in grades.items()
            if grade > MAX_GRADE
        ),
        None,
    )
    if found is None:
        return []
    query, passage, grade = found
    return [
        f"measure {name!r}: expected grades up to {MAX_GRADE}, its highest; found grade {grade} "
        f"(query {query}, passage {passage}); lower the grades, or use nDCG, which has no highest"
        for name in named
    ]
