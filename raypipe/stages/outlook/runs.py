"""Runs that are expected: how many lines, and what they take."""

from dataclasses import replace

import numpy as np

from raypipe.stages.outlook.outlook import ExpectedRun, Outlook
from raypipe.stages.outlook.tables import run_bytes

LINE_SECONDS = 1.5e-6
"""CPU time of reading, ordering and writing a line, on the machine of docs/benchmarks.md."""


def expected_run(outlook: Outlook) -> ExpectedRun:
    """The run of an outlook that has one."""
    assert outlook.run is not None
    return outlook.run


def run_outlook(
    run: ExpectedRun, scored_by: str, cpu_seconds: float, *, num_bytes: float | None = None
) -> Outlook:
    """The outlook of a store with this run, of so many bytes or those of a run of any scores."""
    if num_bytes is None:
        num_bytes = run_bytes(run, scored_by)
    lines = run.total(run.lines)
    return Outlook(
        num_rows=run.num_queries,
        num_bytes=num_bytes,
        cpu_seconds=cpu_seconds,
        facts={"rows": round(lines)},
        run=replace(run, line_bytes=num_bytes / lines if lines else 0.0),
    )


def reranked_outlook(run: ExpectedRun, first: int, tail: str, scored_by: str) -> Outlook:
    """The outlook of a run whose first lines have new scores; the tail is kept, or `drop`ped."""
    seconds = run.total(run.lines) * LINE_SECONDS
    top = replace(run, lines=np.minimum(first, run.lines))
    if tail == "drop":
        return run_outlook(top, scored_by, seconds)
    rest = run.total(run.lines) - run.total(top.lines)
    num_bytes = run_bytes(top, scored_by) + rest * run.line_bytes
    return run_outlook(run, scored_by, seconds, num_bytes=num_bytes)
