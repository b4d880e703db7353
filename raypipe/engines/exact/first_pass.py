"""The first pass of exact search: of each query the rows with the largest float32 products."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.best_products import BestProducts, Queries, Values
from raypipe.engines.exact.blocks import ShardVectors, cast, cut
from raypipe.engines.exact.products import Products
from raypipe.engines.exact.spans import Rows
from raypipe.engines.exact.threads import in_order

Parts = tuple[ShardVectors, ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the first pass found."""

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
) -> Candidates:
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
        vectors, num_found = np.empty((block_rows, dim), np.float32), len(queries) * block_rows
        buffers.put((vectors, np.empty(num_found, np.float32), np.empty(num_found, np.bool_)))

    def above(parts: Parts) -> _Above:
        vectors, found, flags = buffer = buffers.get()
        try:
            block = cast(parts, vectors, products.widen)
            num = len(block.rows)
            scores = found[: len(queries) * num].reshape(len(queries), num)
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
    return Candidates(
        rows=np.take_along_axis(best.rows, order, 1),
        products=np.take_along_axis(best.products, order, 1),
        last=best.floor,
        norm=norm,
        moved=moved,
    )
