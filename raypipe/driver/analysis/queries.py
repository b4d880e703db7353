"""The analysis `queries` of a finished workspace: where its systems differ, query by query."""

import re
from collections.abc import Callable, Mapping

from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import about, judgements_of, measured, measures_of
from raypipe.errors import InputError
from raypipe.evaluation.measured import Measured

NUM_QUERIES = 10
LENGTHS = ((1, 2), (3, 4), (5, 7), (8, 12), (13, None))
"""Words of a query, from and to."""
NUMBERS_RELEVANT = ((0, 0), (1, 1), (2, 3), (4, 9), (10, 49), (50, None))
Values = Mapping[str, float]


def queries(finished: Finished, query_set: str, *, num: int = NUM_QUERIES) -> Section:
    """The first measure by query: the most changed and the hardest, by length and by judgements.

    A query's change is that of the last system of the recipe against the recipe's baseline, or
    against the first system. The hardest queries are those whose best system is worst.

    Raises:
        InputError: no judgements of passages, no measures, or no run of passages.
    """
    relevant = _numbers_relevant(finished, query_set)
    measure, systems = measures_of(finished)[0], finished.systems(query_set)
    if not systems:
        raise InputError(
            f"{finished.workspace.folder}: the query set {query_set} has no run of passages, only "
            "of documents; expected a stage that ranks passages"
        )
    of_system: dict[str, Measured] = {
        name: measured(finished, query_set, finished.run(name, query_set), [measure])
        for name in systems
    }
    values = {name: found.per_query[measure] for name, found in of_system.items()}
    table = finished.queries(query_set).to_pydict()
    texts = dict(zip(table["query_id"], table["text"], strict=True))
    evaluated = finished.recipe.evaluate
    named = evaluated.baseline if evaluated is not None else None
    base, best = named if named in values else systems[0], systems[-1]
    judged = [query for query in values[base] if query in texts]
    change = {query: values[best][query] - values[base][query] for query in judged}
    highest = {query: max(of_one[query] for of_one in values.values()) for query in judged}

    def listed(title: str, chosen: list[str]) -> Table:
        rows: list[list[Value]] = [
            [
                query,
                texts[query],
                relevant.get(query, 0),
                *(values[name][query] for name in systems),
            ]
            for query in chosen
        ]
        return Table(title, ["query", "text", "relevant", *systems], rows)

    gained = sorted(judged, key=lambda query: (-change[query], query))[:num]
    lost = sorted(judged, key=lambda query: (change[query], query))[:num]
    tables = [
        listed(f"{measure}: gained most, {best} over {base}", [q for q in gained if change[q] > 0]),
        listed(f"{measure}: lost most, {best} over {base}", [q for q in lost if change[q] < 0]),
        listed(
            f"{measure}: hardest for every system",
            sorted(judged, key=lambda query: (highest[query], query))[:num],
        ),
        _grouped(
            f"{measure} by words of the query", "words", LENGTHS, values, judged,
            lambda query: len(re.findall(r"\w+", texts[query])),
        ),
        _grouped(
            f"{measure} by relevant passages", "relevant", NUMBERS_RELEVANT, values, judged,
            lambda query: relevant.get(query, 0),
        ),
    ]  # fmt: skip
    notes = [*about(finished, query_set), f"values are {measure}; relevant: grade 1 or higher"]
    return Section("queries", query_set, tables, (), notes)


def _grouped(
    title: str,
    column: str,
    bounds: tuple[tuple[int, int | None], ...],
    values: Mapping[str, Values],
    queries: list[str],
    count: Callable[[str], int],
) -> Table:
    rows: list[list[Value]] = []
    for low, high in bounds:
        group = [q for q in queries if low <= count(q) and (high is None or count(q) <= high)]
        if group:
            label = f"{low}" if high == low else f"{low} to {high}" if high else f"{low} or more"
            means = [sum(of_one[q] for q in group) / len(group) for of_one in values.values()]
            rows.append([label, len(group), *means])
    return Table(title, [column, "queries", *values], rows)


def _numbers_relevant(finished: Finished, query_set: str) -> dict[str, int]:
    columns = judgements_of(finished, query_set).to_pydict()
    found: dict[str, int] = {}
    for query, grade in zip(columns["query_id"], columns["relevance"], strict=True):
        found[query] = found.get(query, 0) + (grade > 0)
    return found
