"""What workers without a shard do near the end, when every shard is in work."""

from raypipe.cluster.scheduling.crew import Crew
from raypipe.cluster.scheduling.pace import Late, Pace
from raypipe.cluster.scheduling.report import Limits

NEW = 0
"""The number of no worker: it would have the usual pace."""


class Tail:
    """Who tries a late shard too, and who is not needed any more."""

    def __init__(self, crew: Crew, pace: Pace, limits: Limits) -> None:
        """Looks at the crew and changes nothing in it."""
        self._crew, self._pace, self._limits = crew, pace, limits

    def second_tries(self, now: float) -> list[tuple[int, Late]]:
        """Workers that wait, each with the shard that it should try too; the latest comes first."""
        if not self._crew.waiting:
            return []
        single, found = self._single(now), []
        for number in self._crew.waiting:
            if single and self._is_worth_it(single[-1], number):
                found.append((number, single.pop()))
        return found

    def not_needed(self, now: float) -> list[int]:
        """Workers to let go: one may wait for each shard that could still be late, and not long.

        Those that came last go first: they are not the fastest.
        """
        waiting = list(self._crew.waiting)
        if not waiting:
            return []
        num_kept = sum(1 for _ in self._crew.single())
        since = self._crew.workers
        old = [n for n in waiting[:num_kept] if now - since[n].since > self._limits.spare_seconds]
        return [*waiting[num_kept:], *old]

    def num_late(self, now: float) -> int:
        """Number of shards that are worth a worker of their own, if nobody waits for them."""
        if self._crew.waiting:
            return 0
        return sum(self._is_worth_it(late, NEW) for late in self._single(now))

    def _is_worth_it(self, late: Late, number: int) -> bool:
        return late.is_worth_it(self._pace, number, self._limits.least_late_seconds)

    def _single(self, now: float) -> list[Late]:
        """The shards in work that may have a second try, the latest last."""
        tries = self._crew.single()
        return self._pace.latest_last((w.shard, number, now - w.since) for number, w in tries)
