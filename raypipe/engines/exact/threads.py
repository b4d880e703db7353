"""Work on several threads of Python, whose results come in the order of the work."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

One = TypeVar("One")
Other = TypeVar("Other")
AHEAD = 2
"""Pieces begun for each thread before the first result is taken: what waits is bounded."""


def in_order(
    work: Callable[[One], Other], items: Iterable[One], num_threads: int
) -> Iterator[Other]:
    """work(item) of each item, in order; one thread is the caller's own.

    numpy and torch let other threads run while they compute. Items are taken as they are needed.
    An error ends the work: what was not begun is left.
    """
    if num_threads == 1:
        yield from map(work, items)
        return
    begun: deque[Future[Other]] = deque()
    pool = ThreadPoolExecutor(num_threads)
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) >= AHEAD * num_threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
