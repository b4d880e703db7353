"""The table that is printed at the end of an invocation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from raypipe.evaluation.difference import Difference
from raypipe.markdown import bullet, cell, markdown_table
from raypipe.vocabulary import Unit

OUTSIDE = (
    "* a ranking of a larger collection, or made of one: its figures compare only with those "
    "of other runs over that collection"
)
"""What the star beside a system means."""
INFERENCES = (
    "inferences/query: what the whole chain asks of its rerankers; computed/query: those computed "
    "for this system, as the others were there for an earlier system or in an older store"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One system on one query set."""

    system: str
    reranks: str
    model: str
    values: Mapping[str, float]
    """Measure -> mean over topics."""
    ms_per_query: float | None
    start_weights_saw: str
    differences: Mapping[str, Difference] = field(default_factory=dict)
    """Measure -> difference to the baseline; empty for the baseline itself."""
    inferences: float | None = None
    """Inferences a query of the whole chain; None if no reranker has a part in it."""
    computed: float | None = None
    """Those of them that were computed for this system; None if unknown."""
    larger_collection: str | None = None
    """The larger collection that it ranks; its values compare with no others."""


def title_of(query_set: str, unit: Unit) -> str:
    """The title of a table: runs of documents have one of their own."""
    return query_set if unit == "passages" else f"{query_set}, documents"


def rows_of(
    told: Mapping[str, Mapping[str, Any]],
    means: Mapping[str, Mapping[str, float]],
    differences: Mapping[str, Mapping[str, Difference]],
    *,
    num_queries: int,
    larger: Mapping[str, str | None] = MappingProxyType({}),
) -> list[Row]:
    """A row for each measured system, in their order.

    Args:
        told: what summary.json says of the systems.
        means: system -> measure -> mean.
        differences: system -> measure -> its difference to the baseline.
        num_queries: of the query set.
        larger: system -> the larger collection that it ranks, if it does.
    """

    def a_query(count: int | None) -> float | None:
        return count / num_queries if count is not None and num_queries else None

    return [
        Row(
            name,
            told[name]["reranks"],
            told[name]["model"],
            values,
            told[name]["ms_per_query"],
            told[name]["start_weights"],
            differences.get(name, {}),
            a_query(told[name].get("inferences")),
            a_query(told[name].get("computed")),
            larger.get(name),
        )
        for name, values in means.items()
    ]


def starred(system: str, larger_collection: str | None) -> str:
    """A system's name, with a star if it ranks a larger collection; see `OUTSIDE`."""
    return system if larger_collection is None else f"{system} *"


def render(
    query_set: str,
    rows: Sequence[Row],
    *,
    measures: Sequence[str],
    num_topics: Mapping[str, int],
    baseline: str | None,
    notes: Sequence[str],
) -> str:
    """The table as Markdown: measures with n in the header, then differences, then notes."""
    with_n = [f"{measure} (n={num_topics[measure]})" for measure in measures]
    blocks = [f"## {query_set}", ""]
    header = ["system", "reranks", "model", *with_n, "ms/query"]
    counted = any(row.inferences is not None for row in rows)
    header += ["inferences/query", "computed/query"] if counted else []
    blocks += markdown_table(
        header,
        [
            [starred(row.system, row.larger_collection), cell(row.reranks), cell(row.model)]
            + [f"{row.values[measure]:.4f}" for measure in measures]
            + [one_digit(row.ms_per_query)]
            + ([one_digit(row.inferences), one_digit(row.computed)] if counted else [])
            for row in rows
        ],
    )
    compared = [row for row in rows if row.differences]
    if baseline is not None and compared:
        blocks += ["", f"Difference to {baseline}, with a 95% interval and wins/ties/losses:", ""]
        blocks += markdown_table(
            ["system", *measures],
            [
                [
                    starred(row.system, row.larger_collection),
                    *[_difference(row.differences[measure]) for measure in measures],
                ]
                for row in compared
            ],
        )
    saw = {row.model: row.start_weights_saw for row in rows if row.start_weights_saw}
    blocks += [""] + [f"- {model}: its start weights saw {what}" for model, what in saw.items()]
    blocks += map(bullet, notes)
    return "\n".join(blocks) + "\n"


def one_digit(value: float | None) -> str:
    """One digit after the point, `-` for what is unknown."""
    return "-" if value is None else f"{value:,.1f}"


def _difference(found: Difference) -> str:
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}] {found.signs}"
