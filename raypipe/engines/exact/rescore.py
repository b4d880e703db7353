"""The exact scores of candidates, gathered piece by piece from the stored vectors."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.blocks import ShardVectors, gather
from raypipe.engines.exact.products import Floats, Products
from raypipe.engines.exact.score import Scratch, rounded
from raypipe.engines.exact.spans import Rows, Scores
from raypipe.engines.exact.threads import in_order

Memory = tuple[NDArray[np.float16], Scratch]


def exact_scores_of(
    queries: Floats,
    rows: Rows,
    shards: Sequence[ShardVectors],
    *,
    norm: float,
    products: Products,
    beat: Callable[[], None],
) -> Scores:
    """The correctly rounded inner products of queries and their candidates, float32 [Q, kept].

    -inf where a row is missing.

    A piece is gathered, cast and summed while it is in the cache, in memory that every query of a
    thread uses again.

    Args:
        queries: float32 [Q, D], fp16 values.
        rows: [Q, kept], ascending for each query but for missing ones, which are -1; every other
            row is in some shard.
        shards: as `checked_shards` returns them.
        norm: not below the length of any candidate.
        products: the library that casts, ready.
        beat: called before each query.
    """
    scores = np.full(rows.shape, -np.inf, np.float32)
    dim, kept = queries.shape[1], rows.shape[1]
    free: SimpleQueue[Memory] = SimpleQueue()
    for _ in range(products.threads):
        scratch = Scratch(dim, kept)
        free.put((np.empty((scratch.rows, dim), np.float16), scratch))

    def of(query: int) -> Scores:
        halves, scratch = memory = free.get()
        try:
            asked, wanted = queries[query].astype(np.float64), rows[query][rows[query] >= 0]
            sums = np.empty(len(wanted), np.float64)
            for start in range(0, len(wanted), scratch.rows):
                some = slice(start, start + scratch.rows)
                vectors = gather(shards, wanted[some], halves[: len(wanted[some])])
                scratch.sums(asked, vectors, products.widen, sums[some])
            return rounded(sums, asked, norm, lambda places: gather(shards, wanted[places]))
        finally:
            free.put(memory)

    for query, found in enumerate(in_order(of, range(len(rows)), products.threads)):
        beat()
        scores[query, rows[query] >= 0] = found
    return scores
