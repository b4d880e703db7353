"""The first pass of exact search: of each query the rows with the largest float32 products.

Blocks are multiplied on several threads of Python, whose results come in the order of the work.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact_scores import Products, ShardVectors, cast, cut
from raypipe.errors import InputError
from raypipe.storage.records import Shard

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


def ordered(rows: Rows, scores: Scores) -> tuple[Rows, Scores]:
    """Both [Q, k] arrays by descending score, then ascending row; missing places (-1) last."""
    missing = rows < 0
    scores = np.where(missing, np.float32(-np.inf), scores) + np.float32(0.0)  # one zero, +0
    key = np.where(missing, np.iinfo(np.int64).max, rows)
    order = np.lexsort((key, -scores), axis=-1)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)


def plan_spans(shards: Sequence[Shard], num_actors: int) -> list[tuple[int, int]]:
    """Rows [start, stop) of contiguous spans of embedding shards, in order, at most 2 per actor.

    Two spans per actor compensate for a slow actor; more would only re-read the queries and merge
    more lists. The spans end where shards end, as near to equal numbers of rows as they allow; the
    result of a search does not depend on them.

    Raises:
        InputError: fewer than 1 actor.
    """
    if num_actors < 1:
        raise InputError(f"search spans: found {num_actors} actors, expected at least 1")
    stops = [shard.stop for shard in shards if shard.num_rows]
    num_spans = min(len(stops), 2 * num_actors)
    spans, start = [], 0
    for span in range(num_spans):
        # Every later span keeps at least one shard.
        first, last = bisect_right(stops, start), len(stops) - (num_spans - span)
        wanted = stops[-1] * (span + 1) / num_spans
        nearest = min(range(first, last + 1), key=lambda place: abs(stops[place] - wanted))
        spans.append((start, stops[nearest]))
        start = stops[nearest]
    return spans


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


CUT_QUERIES = 64
"""Queries whose lists are cut at a time: the copies stay small."""

Queries = NDArray[np.intp]
Values = NDArray[np.float32]


class BestProducts:
    """The `kept` largest products of each query, and their rows.

    A list has room for twice as many. When it is full it is cut to the `kept` largest, and the
    smallest of these becomes the query's floor: what is not above it can no longer enter. So most
    products are only compared, and few are ever sorted. Which of equal products stay is not
    defined.
    """

    def __init__(self, num_queries: int, kept: int) -> None:
        self.kept = kept
        self.floor: Values = np.full(num_queries, -np.inf, np.float32)
        """[Q]: the kept-th largest product seen when the list was last cut, else -inf."""
        self.counts = np.zeros(num_queries, np.int64)
        self.products: Values = np.full((num_queries, 2 * kept), -np.inf, np.float32)
        self.rows: Rows = np.full((num_queries, 2 * kept), -1, np.int64)

    def enter(self, queries: Queries, rows: Rows, products: Values) -> None:
        """Add products [n] of queries and rows; queries ascend."""
        if self._fitted(queries, rows, products):
            return
        self.cut()
        above = products > self.floor[queries]
        queries, rows, products = queries[above], rows[above], products[above]
        if self._fitted(queries, rows, products):
            return
        distinct = np.unique(rows)  # too many at once: as many rows as fit into every list
        for first in range(0, len(distinct), self.kept):
            some = np.isin(rows, distinct[first : first + self.kept])
            self.enter(queries[some], rows[some], products[some])

    def cut(self) -> None:
        """Keep the `kept` largest products of each query, and raise the floors."""
        width = int(self.counts.max(initial=0))
        starts = range(0, len(self.counts), CUT_QUERIES) if width > self.kept else ()
        for start in starts:
            some = slice(start, start + CUT_QUERIES)
            products, rows = self.products[some], self.rows[some]
            order = np.argpartition(products[:, :width], width - self.kept, axis=1)
            best = order[:, width - self.kept :]
            best += np.arange(len(products))[:, np.newaxis] * (2 * self.kept)
            products[:, : self.kept] = products.ravel().take(best)
            rows[:, : self.kept] = rows.ravel().take(best)
            products[:, self.kept :] = -np.inf
        np.minimum(self.counts, self.kept, out=self.counts)
        full = self.counts == self.kept
        self.floor[full] = self.products[full, : self.kept].min(axis=1)

    def _fitted(self, queries: Queries, rows: Rows, products: Values) -> bool:
        """Whether there was room for all of them, and they are in the lists."""
        counts = np.bincount(queries, minlength=len(self.counts))
        after = self.counts + counts
        if (after > 2 * self.kept).any():
            return False
        # The n-th of all goes to a place of its query's list: n, less those of queries before it.
        firsts = np.arange(len(counts)) * (2 * self.kept) + self.counts
        places = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
        places += np.arange(len(places))
        self.products.ravel()[places] = products
        self.rows.ravel()[places] = rows
        self.counts = after
        return True


Parts = Sequence[ShardVectors]


@dataclass(frozen=True, slots=True)
class Proposals:
    """The candidates of the first pass, with the bounds that a proof needs."""

    rows: Rows
    """[Q, kept], ascending."""
    products: Values
    """[Q, kept]: those of `rows`."""
    last: Values
    """[Q]: no other row of a query has a product above this."""
    norm: float
    """Not below the length of any passage."""
    moved: float
    """How far the library moved a passage at most; see `Multiply`."""


@runtime_checkable
class OwnCandidates(Protocol):
    """A library of products that selects the candidates as well, as on a GPU."""

    def candidates(
        self,
        queries: NDArray[np.float32],
        shards: Sequence[ShardVectors],
        *,
        kept: int,
        beat: Callable[[], None],
    ) -> Proposals:
        """The same as the function `candidates`, in blocks of its own."""


@dataclass(frozen=True, slots=True)
class _Above:
    """The products of one block that are above the floors."""

    queries: Queries
    rows: Rows
    products: Values
    norm: float
    moved: float


def candidates(
    queries: NDArray[np.float32],
    shards: Sequence[ShardVectors],
    *,
    kept: int,
    block_rows: int,
    products: Products,
    beat: Callable[[], None],
) -> Proposals:
    """The `kept` rows of each query with the largest products; at least as many must be given.

    Each block is cast, multiplied and compared with the floors while it is in the cache; only what
    is above its query's floor is copied. A floor only rises, so an old one lets more through and
    never less: threads need no lock.

    Args:
        queries: float32 [Q, D], fp16 values.
        shards: as `checked_shards` returns them.
        kept: candidates per query.
        block_rows: rows cast at a time, for each thread.
        products: the library, ready.
        beat: called before each block.

    Raises:
        InputError: a row holds a NaN or an infinity; the message names the rows.
    """
    best = BestProducts(len(queries), kept)
    num_threads, dim, multiply = products.threads, queries.shape[1], products.multiply(queries)
    buffers: SimpleQueue[tuple[Values, Values, NDArray[np.bool_]]] = SimpleQueue()
    for _ in range(num_threads):
        vectors, num_products = np.empty((block_rows, dim), np.float32), len(queries) * block_rows
        buffers.put((vectors, np.empty(num_products, np.float32), np.empty(num_products, np.bool_)))

    def above(parts: Parts) -> _Above:
        vectors, sums, flags = buffer = buffers.get()
        try:
            block = cast(parts, vectors, products.widen)
            num = len(block.rows)
            scores = sums[: len(queries) * num].reshape(len(queries), num)
            moved = multiply(block.vectors, scores)
            larger = flags[: len(queries) * num].reshape(len(queries), num)
            places = np.flatnonzero(np.greater(scores, best.floor[:, np.newaxis], out=larger))
            owners = places // num
            rows = block.rows[places - owners * num]
            return _Above(owners, rows, scores.ravel()[places], float(block.norms.max()), moved)
        finally:
            buffers.put(buffer)

    norm = moved = 0.0
    for entering in in_order(above, cut(shards, block_rows), num_threads):
        beat()
        best.enter(entering.queries, entering.rows, entering.products)
        norm, moved = max(norm, entering.norm), max(moved, entering.moved)
    best.cut()
    assert (best.counts == kept).all(), "fewer finite products than rows that were given"
    order = np.argsort(best.rows[:, :kept], axis=1)
    return Proposals(
        rows=np.take_along_axis(best.rows, order, 1),
        products=np.take_along_axis(best.products, order, 1),
        last=best.floor,
        norm=norm,
        moved=moved,
    )
