"""Progress of stages: on stderr, and as metrics of Ray, which Prometheus reads from every node.

On a terminal it is one display of all stages, elsewhere lines with times. `ray.util.metrics` hands
the numbers to the agent of the driver's node, in the background; an agent that does not answer
loses them, and the job does not notice.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from raypipe.cluster.report import Report
from raypipe.driver.execute import StageResult, Watcher
from raypipe.errors import visible
from raypipe.names import Role, StoreName

if TYPE_CHECKING:
    from raypipe.cluster.report import Report
    from raypipe.driver.execute import StageResult


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
    Role.TOKENS: "word pieces",
    Role.PIECES: "word pieces of the candidates",
    Role.SCORES: "scores",
    Role.RESULT: "",
    Role.PARTS: "in parts",
    Role.TUNE: "tuning",
    Role.FILLED: "what the grid lacks",
    Role.FILLED_PIECES: "word pieces of what the grid lacks",
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
        """See Watcher."""
        self._num_expected = num_stages
        self._tell_all()

    def began(self, name: StoreName, report: "Report") -> None:
        """See Watcher."""
        self._last_line = time.monotonic()
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        if self._display is None:
            bars = [BarColumn(bar_width=20)] if self._console.width >= WIDE else []
            told = TextColumn("{task.fields[told]}", markup=False)
            named = TextColumn("{task.description}", markup=False)
            self._display = Progress(
                named,
                *bars,
                told,
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
                redirect_stdout=False,
            )
            self._all = self._display.add_task("all stages", told="")
            self._tell_all()
            self._display.start()
        self._forget_stage()
        self._stage = self._display.add_task(
            words_of(name),
            total=report.num_rows_planned or None,
            completed=report.num_rows_reused,
            told=_done(report),
        )

    def advanced(self, name: StoreName, report: "Report") -> None:
        """See Watcher."""
        if self._display is not None:
            self._tell_stage(report)
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self._line(f"{words_of(name)}: {_done(report)}")

    def ended(self, name: StoreName, result: "StageResult") -> None:
        """See Watcher."""
        self._forget_stage()
        self._num_ended += 1
        self._tell_all()
        kept = f", {result.num_shards_reused} shards kept" if result.num_shards_reused else ""
        lost = f", {result.num_quarantined} in quarantine" if result.num_quarantined else ""
        copied = f", {result.num_copied:,} of them copied" if result.num_copied else ""
        more = f"{copied}{kept}{lost}" if not result.reused else ""
        if result.seconds >= QUICK_SECONDS or more:
            rows = _rows(result.num_rows)
            self._line(f"{words_of(name)}: {rows} in {result.seconds:.1f} s{more}")

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
        told = f"{self._num_ended}{of} complete"
        self._display.update(self._all, total=total, completed=self._num_ended, told=told)

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
    told = f"{rows:,} of {_rows(report.num_rows_planned)}"
    if report.num_rows and report.working_seconds > 0:
        rate = report.num_rows / report.working_seconds
        left = timedelta(seconds=round((report.num_rows_planned - rows) / rate))
        told += f", {rate:,.{0 if rate >= 10 else 1}f} rows/s, {left} left"
    elif report.num_computing:
        told += f", {_counted(report.num_computing, 'shard')} at work"
    told += f", {_counted(report.num_lost, 'worker')} lost" if report.num_lost else ""
    if report.num_out_of_memory:
        told += f", {_counted(report.num_out_of_memory, 'worker')} ended for want of memory"
    return told


def _rows(number: int) -> str:
    return _counted(number, "row")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


ROWS = "raypipe_rows_total"
SHARDS = "raypipe_shards_total"
SUCCESS = "raypipe_last_success_timestamp_seconds"
_COUNTERS = {
    ROWS: ("Rows that invocations have committed, by store.", ("recipe", "stage")),
    SHARDS: (
        "Shards of stores by state: planned, and of those reused or computed.",
        ("recipe", "stage", "state"),
    ),
}
_GAUGES = {SUCCESS: ("When an invocation of the recipe was last complete.", ("recipe",))}
log = logging.getLogger(__name__)
Labels = tuple[tuple[str, str], ...]


@dataclass
class RayMetrics:
    """Counters and gauges of the Ray that this process has started or joined.

    What is counted before that waits. Any error of Ray's ends the export: a job does not fail
    because nobody can watch it.
    """

    connected: Callable[[], bool] = lambda: _connected()
    _waiting: dict[tuple[str, Labels], float] = field(default_factory=dict)
    _made: dict[str, Any] = field(default_factory=dict)
    _broken: bool = False

    def add(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Increase a counter; by 0 nothing happens."""
        key = (name, tuple(labels.items()))
        if value > 0:
            self._waiting[key] = self._waiting.get(key, 0.0) + value
            self._export()

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Set a gauge."""
        self._waiting[name, tuple(labels.items())] = value
        self._export()

    def _export(self) -> None:
        if self._broken:
            self._waiting.clear()
            return
        try:
            if self.connected():
                for (name, labels), value in self._waiting.items():
                    self._give(name, value, dict(labels))
                self._waiting.clear()
        except Exception as error:  # whatever Ray raises; see the class
            self._broken = True
            log.warning("no more metrics are exported to Ray: %s", error)

    def _give(self, name: str, value: float, labels: dict[str, str]) -> None:
        from ray.util.metrics import Counter, Gauge

        if name in _COUNTERS:
            if name not in self._made:
                self._made[name] = Counter(name, *_COUNTERS[name])
            self._made[name].inc(value, labels)
            return
        if name not in self._made:
            self._made[name] = Gauge(name, *_GAUGES[name])
        self._made[name].set(value, labels)


def _connected() -> bool:
    """Whether this process uses a Ray; asking loads nothing."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


class Exporting(Watcher):
    """A watcher that counts what another one is told."""

    def __init__(self, inner: Watcher, recipe: str, metrics: RayMetrics) -> None:
        """Tells `inner` everything too."""
        self._inner, self._recipe, self._metrics = inner, recipe, metrics
        self._seen = Report()
        self._began: StoreName | None = None

    def expects(self, num_stages: int) -> None:
        """See Watcher."""
        self._inner.expects(num_stages)

    def began(self, name: StoreName, report: Report) -> None:
        """See Watcher."""
        self._inner.began(name, report)
        self._began, self._seen = name, Report()
        self._shards(name, "planned", report.num_planned)
        self._shards(name, "reused", report.num_reused)

    def advanced(self, name: StoreName, report: Report) -> None:
        """See Watcher."""
        self._inner.advanced(name, report)
        self._shards(name, "computed", report.num_done - self._seen.num_done)
        labels = {"recipe": self._recipe, "stage": str(name)}
        self._metrics.add(ROWS, report.num_rows - self._seen.num_rows, labels)
        self._seen = Report(num_done=report.num_done, num_rows=report.num_rows)

    def ended(self, name: StoreName, result: StageResult) -> None:
        """See Watcher."""
        self._inner.ended(name, result)
        if name != self._began:  # it was there as a whole
            self._shards(name, "planned", result.num_shards)
            self._shards(name, "reused", result.num_shards)

    def succeeded(self) -> None:
        """The invocation has done all that it was to do."""
        self._metrics.set(SUCCESS, time.time(), {"recipe": self._recipe})

    def _shards(self, name: StoreName, state: str, number: int) -> None:
        labels = {"recipe": self._recipe, "stage": str(name), "state": state}
        self._metrics.add(SHARDS, number, labels)
