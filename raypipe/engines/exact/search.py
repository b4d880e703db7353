"""Exact top k by inner product over embedding shards, however the work is divided.

faiss multiplies and selects in float32, one block at a time, and keeps more candidates than
requested. These are scored again, exactly, from the stored fp16 values. If the candidates provably
contain the answer, it is final; the other queries get a second pass (`ties`).
"""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import faiss
import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.blocks import (
    ShardVectors,
    checked_shards,
    float32_blocks,
    gather,
    refuse_nonfinite,
    upper_norms,
)
from raypipe.engines.exact.score import exact_scores, widen
from raypipe.engines.exact.spans import Rows, Scores, ordered
from raypipe.engines.exact.ties import search_above
from raypipe.errors import InputError

logger = logging.getLogger(__name__)

MEMORY_BYTES = 2 << 30
FIXED_BYTES = 96 << 20
"""Memory for tiles of products, gathered candidates and a merge, which no argument changes."""
CANDIDATE_BYTES = 96
"""Memory per kept candidate of one query: result heap, block result, faiss reservoir, order."""
BLOCK_ROWS_PER_CANDIDATE = 100
MIN_BLOCK_ROWS = 65_536
"""Each block refills faiss's lists: blocks of 20k rows cost a third of the speed at k=1000."""


def topk_block_stream(
    queries: NDArray[np.float16],
    blocks: Iterable[tuple[int, NDArray[np.float16]]],
    *,
    depth: int,
    block_rows: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
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
        memory_bytes: limit for what is allocated here, without the result and the shards.

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
    query_rows, planned = plan_memory(
        memory_bytes, num_queries=len(queries), num_rows=num_rows, dim=queries.shape[1], kept=kept
    )
    buffer = np.empty((min(block_rows or planned, num_rows), queries.shape[1]), np.float32)
    for start in range(0, len(queries), query_rows):
        some = slice(start, start + query_rows)
        found = _search(vectors[some], norms[some], shards, buffer, depth=depth, kept=kept)
        rows[some, : found[0].shape[1]], scores[some, : found[0].shape[1]] = found
    return rows, scores


def num_spare(depth: int) -> int:
    """Number of candidates kept beyond the depth.

    Near rank 1000 of 8.8M, scores of 768-d vectors are about 1/11 of twice the error bound apart;
    the other candidates allow for duplicates. Too few cost a second pass, but never a result.
    """
    return 32 + depth // 16


def plan_memory(
    memory_bytes: int, *, num_queries: int, num_rows: int, dim: int, kept: int
) -> tuple[int, int]:
    """(queries per batch, rows per block) that fit the memory; blocks have equal sizes.

    Blocks get their memory first, up to half of it: small blocks slow the selection down. Every
    batch of queries casts the shards again, which costs as much as about 20 queries.

    Raises:
        InputError: one query and a block of `kept` rows do not fit.
    """
    row_bytes = 4 * dim + 32
    query_bytes = CANDIDATE_BYTES * kept + 16 * dim
    free = memory_bytes - FIXED_BYTES
    least = query_bytes + kept * row_bytes
    if free < least:
        raise InputError(
            f"search memory: found {memory_bytes} bytes, expected at least {FIXED_BYTES + least} "
            f"for {kept} candidates of dimension {dim}; raise the memory or lower the depth"
        )
    wanted = max(MIN_BLOCK_ROWS, BLOCK_ROWS_PER_CANDIDATE * kept)
    most = max(kept, min(wanted, free // 2 // row_bytes))
    block_rows = math.ceil(num_rows / math.ceil(num_rows / most))
    query_rows = max(1, (free - block_rows * row_bytes) // query_bytes)
    return min(num_queries, query_rows), block_rows


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


def _search(
    queries: NDArray[np.float32],
    norms: NDArray[np.float64],
    shards: Sequence[ShardVectors],
    buffer: NDArray[np.float32],
    *,
    depth: int,
    kept: int,
) -> tuple[Rows, Scores]:
    """The result of one batch: candidates, exact scores, proof, and a second pass without one."""
    heap = faiss.ResultHeap(len(queries), kept, keep_max=True)
    largest, num_rows = 0.0, 0
    for block in float32_blocks(shards, buffer):
        with _blas_from_four_queries(queries.shape[1]):
            products, labels = faiss.knn(
                queries, block.vectors, min(kept, len(block.rows)), faiss.METRIC_INNER_PRODUCT
            )
        heap.add_result(products, block.rows[labels])
        largest, num_rows = max(largest, float(block.norms.max())), num_rows + len(block.rows)
    assert (heap.I >= 0).all(), "faiss left a place empty though enough finite rows were given"
    last = heap.D.min(axis=1)
    rows, scores = _rescored(queries, np.sort(heap.I, axis=1), shards)
    rows, scores = rows[:, :depth], scores[:, :depth]
    if kept == num_rows:
        return rows, scores
    error = product_error(queries.shape[1])
    unproven = np.flatnonzero(last >= scores[:, -1] - 2 * error * norms * largest)
    if len(unproven):
        logger.debug("second pass for %d of %d queries", len(unproven), len(queries))
        rows[unproven], scores[unproven] = search_above(
            queries[unproven],
            norms[unproven],
            scores[unproven, -1],
            float32_blocks(shards, buffer),
            depth=depth,
            error=error,
        )
    return rows, scores


def _rescored(
    queries: NDArray[np.float32], rows: Rows, shards: Sequence[ShardVectors]
) -> tuple[Rows, Scores]:
    """The candidates [Q, kept] (ascending for each query) in the final order, with exact scores."""
    scores = np.empty(rows.shape, np.float32)
    vectors = np.empty((rows.shape[1], queries.shape[1]), np.float32)
    for query, candidates in enumerate(rows):
        widen(gather(shards, candidates), vectors)
        scores[query] = exact_scores(queries[query].astype(np.float64), vectors)
    return ordered(rows, scores)


@contextmanager
def _blas_from_four_queries(dim: int) -> Iterator[None]:
    """Make faiss multiply matrices from 4 queries on (in 1.15 the default is 128,000 / dim).

    Measured on one thread: 1.5x at 4 queries, 5x at 128; at 1 to 3 its vector loop is faster.
    The setting belongs to the process, so it is restored.
    """
    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 4 * dim
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


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
