"""Exact top k by inner product over embedding shards, however the work is divided.

The first pass multiplies and selects in float32, one block at a time, and keeps more candidates
than requested. These are scored again, exactly, from the stored fp16 values. If the candidates
provably contain the answer, it is final; the other queries get a second pass (`ties`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.blocks import (
    Block,
    ShardVectors,
    checked_shards,
    float32_blocks,
    gather,
    refuse_nonfinite,
    upper_norms,
)
from raypipe.engines.exact.first_pass import candidates
from raypipe.engines.exact.memory import num_spare, plan_memory
from raypipe.engines.exact.products import NumpyProducts, Products
from raypipe.engines.exact.score import exact_scores, widen
from raypipe.engines.exact.spans import Rows, Scores, ordered
from raypipe.engines.exact.threads import in_order
from raypipe.engines.exact.ties import search_above
from raypipe.errors import InputError


def topk_block_stream(
    queries: NDArray[np.float16],
    blocks: Iterable[tuple[int, NDArray[np.float16]]],
    *,
    depth: int,
    block_rows: int | None = None,
    memory_bytes: int | None = None,
    products: Products | None = None,
    beat: Callable[[], None] = lambda: None,
    on_second_pass: Callable[[int], None] = lambda number: None,
) -> tuple[Rows, Scores]:
    """The `depth` best passages of each query and their scores, exact.

    The score is the inner product of the stored fp16 values, rounded once to float32. The order is
    descending score, then ascending row. Shards, blocks, query batches, threads and memory do not
    affect the result. It equals `(Q.astype("f8") @ E.astype("f8").T).astype("f4")` wherever that is
    itself correctly rounded: always if |query| |passage| <= 32.

    Args:
        queries: [Q, D].
        blocks: for each shard (row of the collection of its first vector, fp16 [n, D]), in any
            order, disjoint. All are held during the search and read more than once: if they do not
            fit the memory, give memory-mapped arrays.
        depth: number of places per query.
        block_rows: number of vectors cast to float32 at a time; by default chosen by the memory.
        memory_bytes: limit for what is allocated here, without the result and the shards; by
            default 2 GiB, or more with many threads.
        products: the library of the first pass, by default numpy.
        beat: called again and again while the search goes on.
        on_second_pass: called with the number of queries of a batch that need a second pass. It
            depends on the rounding of the products, the result does not.

    Returns:
        rows int64 [Q, depth] and scores float32 [Q, depth]; missing places last, -1 and -inf.

    Raises:
        InputError: shapes or dtypes that do not fit, shards that share a row, a NaN or an
            infinity in a query or a passage, or too little memory.
    """
    _check(queries, depth, block_rows)
    shards = checked_shards(blocks, queries.shape[1])
    num_rows = sum(len(shard.vectors) for shard in shards)
    rows: Rows = np.full((len(queries), depth), -1, np.int64)
    scores: Scores = np.full((len(queries), depth), -np.inf, np.float32)
    vectors = np.empty(queries.shape, np.float32)
    widen(queries, vectors)
    norms = upper_norms(vectors)
    refuse_nonfinite("query", np.arange(len(queries)), vectors, norms)
    if num_rows == 0 or len(queries) == 0:
        return rows, scores
    kept = min(num_rows, depth + num_spare(depth))
    products = products or NumpyProducts()
    query_rows, planned = plan_memory(
        memory_bytes,
        num_queries=len(queries),
        num_rows=num_rows,
        dim=queries.shape[1],
        kept=kept,
        threads=products.threads,
    )
    rows_at_once = min(block_rows or planned, num_rows)
    search = _Search(shards, depth, kept, rows_at_once, products, beat, on_second_pass)
    with products.ready():
        for start in range(0, len(queries), query_rows):
            some = slice(start, start + query_rows)
            found = search.batch(vectors[some], norms[some])
            rows[some, : found[0].shape[1]], scores[some, : found[0].shape[1]] = found
    return rows, scores


def product_error(dim: int) -> float:
    """The bound e: a float32 inner product of fp16 vectors is off by at most e |query| |passage|.

    A product of two fp16 values has 22 bits and lies in [2^-48, 2^32]: it is exact in float32.
    The dim - 1 sums, in any order, fused or not, are off by at most (dim - 1) u / (1 - (dim - 1)
    u), u = 2^-24, times the sum of magnitudes, which is at most |query| |passage|. Five more u
    cover the rounding of the final score and of this bound.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
    """
    units = (dim + 4) * 2.0**-24
    return units / (1 - units)


@dataclass(frozen=True, slots=True)
class _Search:
    """A search of these shards, for one batch of queries after another."""

    shards: Sequence[ShardVectors]
    depth: int
    kept: int
    block_rows: int
    products: Products
    beat: Callable[[], None]
    on_second_pass: Callable[[int], None]

    def batch(
        self, queries: NDArray[np.float32], norms: NDArray[np.float64]
    ) -> tuple[Rows, Scores]:
        """The result of one batch: candidates, exact scores, proof, a second pass without one."""
        found = candidates(
            queries,
            self.shards,
            kept=self.kept,
            block_rows=self.block_rows,
            products=self.products,
            beat=self.beat,
        )
        rows, scores = self._rescored(queries, found.rows, found.norm)
        rows, scores = rows[:, : self.depth], scores[:, : self.depth]
        if self.kept == sum(len(shard.vectors) for shard in self.shards):
            return rows, scores
        error = product_error(queries.shape[1])
        unproven = np.flatnonzero(found.last >= scores[:, -1] - 2 * error * norms * found.norm)
        if len(unproven):
            self.on_second_pass(len(unproven))
            rows[unproven], scores[unproven] = search_above(
                queries[unproven],
                norms[unproven],
                scores[unproven, -1],
                self._blocks(queries.shape[1]),
                depth=self.depth,
                error=error,
            )
        return rows, scores

    def _blocks(self, dim: int) -> Iterator[Block]:
        for block in float32_blocks(self.shards, np.empty((self.block_rows, dim), np.float32)):
            self.beat()
            yield block

    def _rescored(
        self, queries: NDArray[np.float32], rows: Rows, norm: float
    ) -> tuple[Rows, Scores]:
        """The candidates [Q, kept] (ascending for each query) in the final order, with scores."""

        def exact(query: int) -> Scores:
            stored = gather(self.shards, rows[query])
            asked = queries[query].astype(np.float64)
            return exact_scores(asked, stored, norm, self.products.widen)

        scores = np.empty(rows.shape, np.float32)
        every = in_order(exact, range(len(rows)), self.products.threads)
        for query, found in enumerate(every):
            self.beat()
            scores[query] = found
        return ordered(rows, scores)


def _check(queries: NDArray[np.float16], depth: int, block_rows: int | None) -> None:
    problems = []
    if queries.ndim != 2 or queries.dtype != np.float16 or queries.shape[1] < 1:
        problems.append(
            f"query embeddings: found {queries.dtype} {list(queries.shape)}, "
            "expected float16 [queries, dimension]"
        )
    if depth < 1:
        problems.append(f"search depth: found {depth}, expected at least 1")
    if block_rows is not None and block_rows < 1:
        problems.append(f"search block_rows: found {block_rows}, expected at least 1")
    if problems:
        raise InputError(problems)
