"""A measure's mean over groups of queries: by their words, and by what is relevant to them."""

import re
from collections.abc import Mapping

from raypipe.analysis.section import Table, Value
from raypipe.vocabulary import Unit

LENGTHS = ((0, 0), (1, 2), (3, 4), (5, 7), (8, 12), (13, None))
"""Words of a query, from and to."""
NUMBERS_RELEVANT = ((0, 0), (1, 1), (2, 3), (4, 9), (10, 49), (50, None))
_WORD = re.compile(r"\w+")
Values = Mapping[str, Mapping[str, float]]
"""System -> query -> value."""


def by_words(measure: str, values: Values, texts: Mapping[str, str]) -> Table:
    """A row for each number of words."""
    counts = {query: len(_WORD.findall(text)) for query, text in texts.items()}
    return _grouped(f"{measure} by words of the query", "words", LENGTHS, values, counts)


def by_relevant(measure: str, unit: Unit, values: Values, relevant: Mapping[str, int]) -> Table:
    """A row for each number of relevant passages or documents."""
    title = f"{measure} by relevant {unit}"
    return _grouped(title, "relevant", NUMBERS_RELEVANT, values, relevant)


def _grouped(
    title: str,
    column: str,
    bounds: tuple[tuple[int, int | None], ...],
    values: Values,
    counts: Mapping[str, int],
) -> Table:
    rows: list[list[Value]] = []
    for low, high in bounds:
        group = [q for q, n in counts.items() if low <= n and (high is None or n <= high)]
        if group:
            label = f"{low}" if high == low else f"{low} to {high}" if high else f"{low} or more"
            means = [sum(of_one[q] for q in group) / len(group) for of_one in values.values()]
            rows.append([label, len(group), *means])
    return Table(title, [column, "queries", *values], rows)
