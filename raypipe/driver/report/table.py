"""The table that is printed at the end of an invocation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raypipe.evaluation.difference import Difference


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
    blocks += _table(
        header,
        [
            [row.system, row.reranks, row.model]
            + [f"{row.values[measure]:.4f}" for measure in measures]
            + [f"{row.ms_per_query:.1f}" if row.ms_per_query is not None else "-"]
            for row in rows
        ],
    )
    compared = [row for row in rows if row.differences]
    if baseline is not None and compared:
        blocks += ["", f"Difference to {baseline}, with a 95% interval:", ""]
        blocks += _table(
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


def _difference(found: Difference) -> str:
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [line(header), rule, *map(line, rows)]
