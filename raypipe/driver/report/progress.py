"""Progress on stderr: a bar on a terminal, a line every few seconds elsewhere."""

import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from raypipe.cluster.loop import Report
from raypipe.driver.recipe.watching import StageResult

LINE_SECONDS = 10.0


class TerminalWatcher:
    """A bar for each running stage, and one line for each completed stage."""

    def __init__(self, stream: TextIO) -> None:
        """Bars need a terminal; a file or pipe gets lines."""
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._last_line = time.monotonic()

    def began(self, store: str, report: Report) -> None:
        """See Watcher."""
        self._last_line = time.monotonic()
        if not self._console.is_terminal:
            self._console.print(f"{store}: {_shards(report)}")
            return
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._progress.start()
        self._progress.add_task(
            store, total=report.num_planned, completed=report.num_reused + report.num_done
        )

    def advanced(self, store: str, report: Report) -> None:
        """See Watcher."""
        done = report.num_reused + report.num_done
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=done)
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(f"{store}: {_shards(report)}")

    def ended(self, store: str, result: StageResult) -> None:
        """See Watcher."""
        self.stop()
        if result.reused:
            self._console.print(f"{store}: reused, {result.num_rows:,} rows")
            return
        kept = f", {result.num_shards_reused} shards kept" if result.num_shards_reused else ""
        lost = f", {result.num_quarantined} in quarantine" if result.num_quarantined else ""
        copied = f", {result.num_copied:,} of them copied" if result.num_copied else ""
        self._console.print(
            f"{store}: {result.num_rows:,} rows in {result.seconds:.1f} s{copied}{kept}{lost}"
        )

    def stop(self) -> None:
        """Remove the bar, however the stage ended."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _shards(report: Report) -> str:
    done = report.num_reused + report.num_done
    lost = f", {report.num_lost} workers lost" if report.num_lost else ""
    if report.num_out_of_memory:
        lost += f", {report.num_out_of_memory} workers ended for want of memory"
    return f"{done} of {report.num_planned} shards{lost}"
