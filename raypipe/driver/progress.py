"""Progress of stages on stderr: on a terminal one display of all, elsewhere lines with times."""

import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from raypipe.driver.execute import Watcher
from raypipe.errors import visible
from raypipe.names import Role, StoreName

if TYPE_CHECKING:
    from raypipe.cluster.report import Report
    from raypipe.driver.execute import Completed


WORDS = {
    Role.COUNT: "counting",
    Role.PASSAGES: "passages",
    Role.IDS: "ids and hashes of the texts",
    Role.DOCUMENTS: "documents",
    Role.WINDOWS: "windows",
    Role.HOMES: "the document of each passage",
    Role.MAP: "the passages of each document",
    Role.DOCUMENT_IDS: "ids of the documents",
    Role.QUERIES: "queries",
    Role.EXCLUDED: "excluded passages",
    Role.EXCLUDED_DOCUMENTS: "excluded documents",
    Role.TOKENS: "word pieces",
    Role.PIECES: "word pieces of the candidates",
    Role.SCORES: "scores",
    Role.RESULT: "",
    Role.PARTS: "in parts",
    Role.TUNE: "tuning",
    Role.CENTRES: "centres",
    Role.RECALL: "recall against exact search",
    Role.EXAMPLES: "examples",
    Role.WEIGHTS: "weights",
}
"""Role of a store -> what stands behind the name of its owner."""


def words_of(name: StoreName) -> str:
    """`dense on test`, `mono on dev: scores`, `collection: ids`."""
    owner = name.owner if name.phase is None else f"{name.owner}, phase {name.phase}"
    owner += "" if name.query_set is None else f" on {name.query_set}"
    what = WORDS[name.role]
    return f"{owner}: {what}" if what else owner


def stamped(line: str, *, terminal: bool) -> str:
    """The `visible` line, behind the local time unless a person watches it come."""
    line = visible(line)
    return line if terminal else f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}"


def to_stderr(line: str) -> None:
    """Send a message to stderr; stdout is for results only."""
    print(stamped(line, terminal=sys.stderr.isatty()), file=sys.stderr, flush=True)


LINE_SECONDS = 30.0
"""Between two lines of a stage at work, where there is no display."""
QUICK_SECONDS = 2.0
"""A stage that took less has no line, unless a row of it is missing or came from another store."""
WIDE = 90
"""Columns of a terminal from which on there is room for a bar."""


class TerminalWatcher(Watcher):
    """A display of all stages and of the one at work, and a line for each that took its time."""

    def __init__(self, stream: TextIO) -> None:
        """The display needs a terminal whose cursor moves; any other stream gets lines."""
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._display: Progress | None = None
        self._all: TaskID | None = None
        self._stage: TaskID | None = None
        self._num_expected = self._num_ended = 0
        self._last_line = time.monotonic()

    def expects(self, num_stages: int) -> None:
        """Set the number of stages to which the display counts."""
        self._num_expected = num_stages
        self._tell_all()

    def began(self, name: StoreName, report: "Report") -> None:
        """Add the stage to the display, which the first stage opens if the stream is a terminal."""
        self._last_line = time.monotonic()
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        if self._display is None:
            bars = [BarColumn(bar_width=20)] if self._console.width >= WIDE else []
            counts = TextColumn("{task.fields[told]}", markup=False)
            named = TextColumn("{task.description}", markup=False)
            self._display = Progress(
                named,
                *bars,
                counts,
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
                redirect_stdout=False,
            )
            self._all = self._display.add_task("all stages", told="")
            self._tell_all()
            self._display.start()
        self._stage = self._display.add_task(
            words_of(name),
            total=report.num_rows_planned or None,
            completed=report.num_rows_reused,
            told=_done(report),
        )

    def advanced(self, name: StoreName, report: "Report") -> None:
        """Update the stage in the display; without a display, write a line every 30 seconds."""
        if self._display is not None:
            self._tell_stage(report)
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self._line(f"{words_of(name)}: {_done(report)}")

    def ended(self, name: StoreName, completed: "Completed") -> None:
        """Remove the stage from the display, with a line if it was slow, or copied or lost rows."""
        self._forget_stage()
        self._num_ended += 1
        self._tell_all()
        report, num_lost = completed.report, len(completed.manifest.skipped_rows)
        if report is None:
            return
        more = f", {report.num_copied:,} of them copied" if report.num_copied else ""
        more += f", {report.num_reused} shards kept" if report.num_reused else ""
        more += f", {num_lost} in quarantine" if num_lost else ""
        if report.seconds >= QUICK_SECONDS or more:
            rows = _rows(completed.num_rows)
            self._line(f"{words_of(name)}: {rows} in {report.seconds:.1f} s{more}")

    def __enter__(self) -> "TerminalWatcher":
        return self

    def __exit__(self, *how: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the display, however the invocation ended; leaving a `with` block does it too."""
        if self._display is not None:
            self._display.stop()
            self._display = self._all = self._stage = None

    def _line(self, line: str) -> None:
        self._console.print(Text(stamped(line, terminal=self._console.is_terminal)))

    def _tell_all(self) -> None:
        """How many stages are complete, of those that were forecast."""
        if self._display is None or self._all is None:
            return
        total = max(self._num_expected, self._num_ended) if self._num_expected else None
        of = f" of {total}" if total else ""
        message = f"{self._num_ended}{of} complete"
        self._display.update(self._all, total=total, completed=self._num_ended, told=message)

    def _tell_stage(self, report: "Report") -> None:
        if self._display is not None and self._stage is not None:
            rows = report.num_rows_reused + report.num_rows
            self._display.update(self._stage, completed=rows, told=_done(report))

    def _forget_stage(self) -> None:
        if self._display is not None and self._stage is not None:
            self._display.remove_task(self._stage)
            self._stage = None


def _done(report: "Report") -> str:
    """`1,200 of 8,000 rows, 300 rows/s, 0:00:23 left`, and what was lost on the way.

    The rate is that since the first worker was ready, so without loading.
    """
    rows = report.num_rows_reused + report.num_rows
    line = f"{rows:,} of {_rows(report.num_rows_planned)}"
    if report.num_rows and report.working_seconds > 0:
        rate = report.num_rows / report.working_seconds
        left = timedelta(seconds=round((report.num_rows_planned - rows) / rate))
        line += f", {rate:,.{0 if rate >= 10 else 1}f} rows/s, {left} left"
    elif report.num_computing:
        line += f", {_counted(report.num_computing, 'shard')} at work"
    line += f", {_counted(report.num_lost, 'worker')} lost" if report.num_lost else ""
    if report.num_out_of_memory:
        line += f", {_counted(report.num_out_of_memory, 'worker')} ended for want of memory"
    return line


def _rows(number: int) -> str:
    return _counted(number, "row")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
