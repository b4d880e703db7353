"""The section of a report that sets the forecast of a run beside what it took."""

from collections.abc import Mapping
from typing import Any

from raypipe.report.section import Section, Table, Value

NAMES = {
    "tokens": "tokens that models read",
    "inferences": "inferences of rerankers",
    "bytes": "bytes of stores, without Lucene",
    "lucene_bytes": "bytes of Lucene's index",
    "run_bytes": "bytes of run files",
    "cpu_seconds": "CPU seconds of the workers",
}
SHOWN = ("tokens", "inferences", "bytes", "cpu_seconds")


def forecasting(summary: Mapping[str, Any]) -> Section | None:
    """Forecast and fact in all and by store; None if the last run made no forecast."""
    told = summary.get("forecast")
    if told is None:
        return None
    totals = told["totals"]
    in_all: list[list[Value]] = [
        [NAMES[name], *(totals[side].get(name) for side in ("forecast", "fact")), _percent(off)]
        for name, off in totals["off"].items()
    ]
    columns = ["store"]
    columns += [f"{side} {name}" for name in SHOWN for side in ("forecast", "fact")]
    by_store: list[list[Value]] = [
        [store, *(sides[side][name] for name in SHOWN for side in ("forecast", "fact"))]
        for store, sides in told["stages"].items()
    ]
    tables = [
        Table("In all, what the last run computed", ["what", "forecast", "fact", "off"], in_all),
        Table("By store", columns, by_store),
    ]
    return Section("forecast", "all", tables, (), told["notes"])


def _percent(off: float | None) -> str | None:
    return None if off is None else f"{100 * off:+.1f}%"
