"""An invocation's progress as metrics of its Ray, which Prometheus reads from every node.

`ray.util.metrics` hands the numbers to the agent of the driver's node, in the background; an agent
that does not answer loses them, and the job does not notice.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from raypipe.cluster.report import Report
from raypipe.driver.recipe.watching import StageResult, Watcher
from raypipe.names import StoreName

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


class Exporting:
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
