"""A forecast as text: the tables that `raypipe plan` prints, and one line before a run."""

from raypipe.driver.forecast.forecast import Forecast, totals_of
from raypipe.driver.forecast.planning import Plan
from raypipe.markdown import markdown_table


def line_of(forecast: Forecast) -> str:
    """`forecast: 1,234,000 tokens, 6,460 inferences, 12.3 MB of stores, 4.5 MB of runs, 95 CPU
    seconds; 3 stores of 20 are there`."""
    totals = totals_of(forecast)
    num_bytes = (totals["bytes"] or 0.0) + (totals["lucene_bytes"] or 0.0)
    parts = [f"{totals['tokens'] or 0:,.0f} tokens"]
    parts += [f"{totals['inferences']:,.0f} inferences"] if totals["inferences"] else []
    parts.append(f"{num_bytes / 1e6:,.1f} MB of stores")
    parts += [f"{totals['run_bytes'] / 1e6:,.1f} MB of runs"] if totals["run_bytes"] else []
    seconds = totals["cpu_seconds"]
    parts += [] if seconds is None else [f"{seconds:,.0f} CPU seconds"]
    there = f"{len(forecast.reused)} stores of {len(forecast.lines)} are there"
    return f"forecast: {', '.join(parts)}; {there}"


def text_of(plan: Plan) -> str:
    """The tables as Markdown: what is not there yet by store, the totals, the run files; notes."""
    forecast, costs = plan.forecast, plan.costs
    blocks = ["## Forecast by store", ""]
    blocks += markdown_table(
        ["store", "rows", "tokens", "inferences", "MB", "CPU seconds"],
        [
            [
                line.store,
                f"{line.rows:,.0f}",
                f"{line.tokens:,.0f}",
                _range(line.inferences, line.least, line.most),
                f"{line.bytes / 1e6:,.2f}",
                _digit(line.cpu_seconds),
            ]
            for line in forecast.lines
            if not line.reused
        ],
    )
    totals = totals_of(forecast)
    rows = [
        ["tokens that models read", f"{totals['tokens']:,.0f}"],
        [
            "inferences of rerankers",
            _range(totals["inferences"] or 0.0, *forecast.inferences_range),
        ],
        ["disk, without Lucene", f"{(totals['bytes'] or 0) / 1e6:,.1f} MB"],
        ["disk, Lucene", f"{(totals['lucene_bytes'] or 0) / 1e6:,.1f} MB"],
        ["disk, run files", f"{(totals['run_bytes'] or 0) / 1e6:,.1f} MB"],
        ["memory of the workers, at least", f"{costs.memory_bytes / 1e9:,.1f} GB"],
        ["CPU seconds", _digit(totals["cpu_seconds"])],
        ["hours", "-" if costs.hours is None else f"{costs.hours:,.2f}"],
        ["stores that are there", ", ".join(forecast.reused) or "none"],
    ]
    if costs.gpu_hours is not None:
        rows.append(["GPU-hours of the models", f"{costs.gpu_hours:,.2f}"])
    if costs.money is not None:
        rows.append(["money for them", f"{costs.money:,.2f} usd"])
    for name, rate in forecast.rates.items():
        rows.append([f"tokens a CPU second, {name}", f"{rate.tokens_per_second:,.0f} ({rate.by})"])
    blocks += ["", f"## In all: {plan.device}", "", *markdown_table(["what", "forecast"], rows)]
    if forecast.run_files:
        sizes = [[name, f"{size / 1e6:,.2f}"] for name, size in forecast.run_files.items()]
        blocks += ["", "## Run files", "", *markdown_table(["file", "MB"], sizes)]
    return "\n".join([*blocks, "", *(f"- {note}" for note in forecast.notes)]) + "\n"


def _range(value: float, least: float, most: float) -> str:
    """`1,500`, or `1,500 (1,000 to 2,000)`."""
    if round(least) == round(most):
        return f"{value:,.0f}"
    return f"{value:,.0f} ({least:,.0f} to {most:,.0f})"


def _digit(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
