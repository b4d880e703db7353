"""How long shards take, by those that are done, and whether one is worth a second try."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from raypipe.stages.stage import Stage, Weighing
from raypipe.storage.records import Shard

NUM_RECENT = 100
"""Shards whose times are known, so that memory is flat and a changed pace is soon noticed."""
MARGIN = 1.5
"""What is left of a shard must take so many times as long as a whole second try."""


def work_of(stage: Stage, shards: Sequence[Shard]) -> dict[int, float]:
    """The work of each shard, by index, beside that of the others.

    It is what the stage says, or else the shard's rows, times those of its span.
    """
    if isinstance(stage, Weighing):
        weights = stage.weights_of(shards)
    else:
        weights = [float(s.num_rows * max(1, s.span_stop - s.span_start)) for s in shards]
    return {shard.index: weight for shard, weight in zip(shards, weights, strict=True)}


class Pace:
    """The seconds that a unit of work takes, lately and on each worker.

    Source: Dean and Ghemawat 2004, section 3.6 (backup tasks); Zaharia et al. 2008 (the task that
    would end last is tried again).
    """

    def __init__(self, work: Mapping[int, float]) -> None:
        """No time is known yet; `work` is that of each shard, by index."""
        self._work = work
        self._recent: deque[float] = deque(maxlen=NUM_RECENT)
        self._own: dict[int, float] = {}
        self._typical: float | None = None

    def done(self, worker: int, shard: Shard, seconds: float, num_copied: int) -> None:
        """Note what a shard took; rows that were copied count as no work."""
        computed = 1 - num_copied / shard.num_rows if shard.num_rows else 0.0
        work = self._work[shard.index] * computed
        if work <= 0 or seconds <= 0:
            return
        self._own[worker] = seconds / work
        self._recent.append(seconds / work)
        self._typical = None

    def forget(self, worker: int) -> None:
        """The worker is gone."""
        self._own.pop(worker, None)

    def expected(self, shard: Shard, worker: int) -> float | None:
        """Seconds of a whole shard at the worker's own pace, or else at the usual one.

        None before any shard was computed.
        """
        if self._typical is None and self._recent:
            self._typical = median(self._recent)
        pace = self._own.get(worker, self._typical)
        return None if pace is None else pace * self._work[shard.index]

    def latest_last(self, tries: Iterable[tuple[Shard | None, int, float]]) -> list["Late"]:
        """Tries (shard, worker, seconds since it began), by what is left for a unit of their work.

        Those of which nothing can be said come first.
        """
        found = [
            Late(shard, self._left(shard, worker, elapsed))
            for shard, worker, elapsed in tries
            if shard is not None
        ]
        found.sort(key=lambda late: late.left / (self._work[late.shard.index] or 1.0))
        return found

    def _left(self, shard: Shard, worker: int, elapsed: float) -> float:
        """Of one that takes longer than expected, as long again as it has taken."""
        whole = self.expected(shard, worker)
        if whole is None:
            return 0.0
        return whole - elapsed if elapsed < whole else elapsed


class Late(NamedTuple):
    """A shard in work, and the seconds that its worker is expected to need still."""

    shard: Shard
    left: float

    def is_worth_it(self, pace: Pace, worker: int, least_seconds: float) -> bool:
        """Whether a second try on this worker would end well before the first."""
        whole = pace.expected(self.shard, worker)
        return whole is not None and self.left > max(least_seconds, MARGIN * whole)
