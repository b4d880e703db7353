"""Runs that are expected: how many lines, and what they take."""

from raypipe.stages.outlook.outlook import ExpectedRun, Outlook
from raypipe.stages.outlook.tables import run_bytes

LINE_SECONDS = 1.5e-6
"""CPU time of reading, ordering and writing a line, on the machine of docs/benchmarks.md."""


def expected_run(outlook: Outlook) -> ExpectedRun:
    """The run of an outlook that has one."""
    assert outlook.run is not None
    return outlook.run


def run_outlook(
    run: ExpectedRun, scored_by: str, cpu_seconds: float, *, by_ranks: bool = False
) -> Outlook:
    """The outlook of a store with this run; see `run_bytes`."""
    return Outlook(
        num_rows=run.num_queries,
        num_bytes=run_bytes(run, scored_by, by_ranks=by_ranks),
        cpu_seconds=cpu_seconds,
        facts={"rows": round(run.total(run.lines))},
        run=run,
    )
