"""The table that is printed at the end of an invocation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raypipe.evaluation.difference import Difference
from raypipe.markdown import cell, markdown_table
from raypipe.vocabulary import Unit

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


def title_of(query_set: str, unit: Unit) -> str:
    """The title of a table: runs of documents have one of their own."""
    return query_set if unit == "passages" else f"{query_set}, documents"


def rows_of(
    told: Mapping[str, Mapping[str, Any]],
    means: Mapping[str, Mapping[str, float]],
    differences: Mapping[str, Mapping[str, Difference]],
    *,
    num_queries: int,
) -> list[Row]:
    """A row for each measured system, in their order; `told` is what summary.json says of them."""

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
        )
        for name, values in means.items()
    ]


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
            [row.system, cell(row.reranks), cell(row.model)]
            + [f"{row.values[measure]:.4f}" for measure in measures]
            + [one_digit(row.ms_per_query)]
            + ([one_digit(row.inferences), one_digit(row.computed)] if counted else [])
            for row in rows
        ],
    )
    compared = [row for row in rows if row.differences]
    if baseline is not None and compared:
        blocks += ["", f"Difference to {baseline}, with a 95% interval:", ""]
        blocks += markdown_table(
            ["system", *measures],
            [
                [row.system, *[_difference(row.differences[measure]) for measure in measures]]
                for row in compared
            ],
        )
    saw = {row.model: row.start_weights_saw for row in rows if row.start_weights_saw}
    blocks += [""] + [f"- {model}: its start weights saw {what}" for model, what in saw.items()]
    blocks += [f"- {note}" for note in notes]
    return "\n".join(blocks) + "\n"


def one_digit(value: float | None) -> str:
    """One digit after the point, `-` for what is unknown."""
    return "-" if value is None else f"{value:,.1f}"


def _difference(found: Difference) -> str:
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
