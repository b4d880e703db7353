"""The workers of one invocation over one store: who opens, who computes what, who waits.

Near the end every shard is in work. Then the times of the shards that are done say which one is
late, and whether it is worth a second try by a worker that waits.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from raypipe.cluster.report import Limits
from raypipe.stages.stage import Stage
from raypipe.storage.records import Shard


@dataclass(slots=True)
class Worker:
    """A worker that the loop knows."""

    last_seen: float
    shard: Shard | None = None
    since: float = 0.0
    """When it was given its shard, or, without one, when it began to wait."""
    plain: bool = True
    """Whether it computes the whole shard as any other would: only such a try may have a second."""
    second: bool = False
    """Whether another worker had begun its shard before."""
    beaten: bool = False
    waiting: bool = False
    """Ready and without a shard; a worker that still opens is not waiting."""


class Workers:
    """Workers by number, with no step that looks at all of them but `single` and `silent`.

    At most two workers compute a shard. A try that ended without a record is not made up for while
    the other goes on, unless its worker was preempted: what killed one may kill the next.
    """

    def __init__(self) -> None:
        """Nobody yet."""
        self.workers: dict[int, Worker] = {}
        self.waiting: dict[int, None] = {}
        """Workers without a shard, the longest waiting first."""
        self._tries: dict[int, list[int]] = {}
        self._doubled: set[int] = set()
        self.num_computing = 0

    def __len__(self) -> int:
        """Number of workers."""
        return len(self.workers)

    def add(self, number: int, now: float) -> None:
        """A worker was started."""
        self.workers[number] = Worker(now)

    def give(self, number: int, shard: Shard, now: float, *, plain: bool) -> None:
        """A worker was given a shard, perhaps one that another computes too."""
        worker = self.workers[number]
        self.waiting.pop(number, None)
        tries = self._tries.setdefault(shard.index, [])
        if tries:
            self._doubled.add(shard.index)
        worker.shard, worker.plain, worker.second = shard, plain, bool(tries)
        worker.last_seen = worker.since = now
        worker.waiting = False
        tries.append(number)
        self.num_computing += 1

    def end_try(self, number: int) -> None:
        """The worker's shard is no longer its own; it is neither waiting nor computing."""
        worker = self.workers[number]
        if worker.shard is None:
            return
        index = worker.shard.index
        worker.shard = None
        self._tries[index].remove(number)
        self.num_computing -= 1
        if not self._tries[index]:
            del self._tries[index]
            self._doubled.discard(index)

    def wait(self, number: int, now: float) -> None:
        """The worker has no shard and waits for one."""
        worker = self.workers[number]
        worker.waiting, worker.since = True, now
        self.waiting[number] = None

    def remove(self, number: int) -> Shard | None:
        """The worker is gone; returns the shard that it computed."""
        shard = self.workers[number].shard
        self.end_try(number)
        self.waiting.pop(number, None)
        del self.workers[number]
        return shard

    def tries(self, shard: Shard) -> list[int]:
        """The workers that compute the shard, in the order in which they began."""
        return list(self._tries.get(shard.index, ()))

    def may_be_tried_again(self, shard: Shard) -> None:
        """Its second try ended through no fault of the shard's."""
        self._doubled.discard(shard.index)

    def single(self) -> Iterator[tuple[int, Worker]]:
        """The workers whose shard may have a second try."""
        for index, (number, *_) in self._tries.items():
            worker = self.workers[number]
            if worker.plain and index not in self._doubled:
                yield number, worker

    def silent(self, now: float, limit: float, limit_opening: float) -> list[tuple[int, float]]:
        """Workers at work that were not heard of for longer than allowed, and what was allowed."""
        silent_workers = []
        for number, worker in self.workers.items():
            allowed = limit if worker.beaten else limit_opening
            if not worker.waiting and now - worker.last_seen > allowed:
                silent_workers.append((number, allowed))
        return silent_workers


NUM_RECENT = 100
"""Shards whose times are known, so that memory is flat and a changed pace is soon noticed."""
MARGIN = 1.5
"""The rest of a shard must take so many times as long as a whole second try."""


def work_of(stage: Stage, shards: Sequence[Shard]) -> dict[int, float]:
    """The work of each shard, by index, beside that of the others; see `Stage.weights_of`."""
    weights = stage.weights_of(shards)
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

        Tries come first whose remaining time is not known.
        """
        unfinished = [
            Late(shard, self._left(shard, worker, elapsed))
            for shard, worker, elapsed in tries
            if shard is not None
        ]
        unfinished.sort(key=lambda late: late.left / (self._work[late.shard.index] or 1.0))
        return unfinished

    def _left(self, shard: Shard, worker: int, elapsed: float) -> float:
        """Seconds that a try still needs: as long again as it has taken, once it is overdue."""
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


NEW = 0
"""The number of no worker: it would have the usual pace."""


class Stragglers:
    """The workers that try a late shard too, and those that are not needed any more."""

    def __init__(self, workers: Workers, pace: Pace, limits: Limits) -> None:
        """Looks at the workers and changes nothing in it."""
        self._workers, self._pace, self._limits = workers, pace, limits

    def second_tries(self, now: float) -> list[tuple[int, Late]]:
        """Workers that wait, each with the shard that it should try too; the latest comes first."""
        if not self._workers.waiting:
            return []
        single, tries = self._single(now), []
        for number in self._workers.waiting:
            if single and self._is_worth_it(single[-1], number):
                tries.append((number, single.pop()))
        return tries

    def not_needed(self, now: float) -> list[int]:
        """Workers to let go: one may wait for each shard that could still be late, and not long.

        The last to come go first: they are not the fastest.
        """
        waiting = list(self._workers.waiting)
        if not waiting:
            return []
        num_kept = sum(1 for _ in self._workers.single())
        since = self._workers.workers
        old = [n for n in waiting[:num_kept] if now - since[n].since > self._limits.spare_seconds]
        return [*waiting[num_kept:], *old]

    def num_late(self, now: float) -> int:
        """Number of shards that are worth a worker of their own, if nobody waits for them."""
        if self._workers.waiting:
            return 0
        return sum(self._is_worth_it(late, NEW) for late in self._single(now))

    def _is_worth_it(self, late: Late, number: int) -> bool:
        return late.is_worth_it(self._pace, number, self._limits.least_late_seconds)

    def _single(self, now: float) -> list[Late]:
        """The shards in work that may have a second try, the latest last."""
        tries = self._workers.single()
        return self._pace.latest_last((w.shard, number, now - w.since) for number, w in tries)
