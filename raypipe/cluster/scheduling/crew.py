"""The workers of one invocation over one store: who opens, who computes what, who waits."""

from collections.abc import Iterator
from dataclasses import dataclass

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


class Crew:
    """Workers by number, with no step that looks at all of them but `single` and `silent`.

    At most two workers compute a shard. A try that ended without a record is not made up for while
    the other goes on, unless its worker was preempted: what killed one may kill the next.
    """

    def __init__(self) -> None:
        """Nobody yet."""
        self.workers: dict[int, Worker] = {}
        self.waiting: dict[int, None] = {}
        """Those without a shard, the longest waiting first."""
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
        found = []
        for number, worker in self.workers.items():
            allowed = limit if worker.beaten else limit_opening
            if not worker.waiting and now - worker.last_seen > allowed:
                found.append((number, allowed))
        return found
