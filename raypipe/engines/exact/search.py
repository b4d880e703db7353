"""Exact top k by inner product over embedding shards, however the work is divided.

The first pass multiplies and selects in float32, one block at a time, and keeps more candidates
than requested. These are scored again, exactly, from the stored fp16 values. If the candidates
provably contain the answer, it is final; the other queries get a second pass (`ties`). On CPUs
that multiply bfloat16, a still coarser pass goes before the first and settles most queries.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.batch import BatchSearch
from raypipe.engines.exact.blocks import checked_shards, refuse_nonfinite, upper_norms
from raypipe.engines.exact.memory import num_kept, plan_memory
from raypipe.engines.exact.products import NumpyProducts, Products
from raypipe.engines.exact.score import widen
from raypipe.engines.exact.spans import Rows, Scores
from raypipe.errors import InputError


def topk_block_stream(
    queries: NDArray[np.float16],
    blocks: Iterable[tuple[int, NDArray[np.float16]]],
    *,
    depth: int,
    block_rows: int | None = None,
    memory_bytes: int | None = None,
    products: Products | None = None,
    coarse: Products | None = None,
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
        coarse: a faster library with larger errors, tried before it for as long as it settles most
            of the queries.
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
    products = products or NumpyProducts()
    query_rows, planned = plan_memory(
        memory_bytes,
        num_queries=len(queries),
        num_rows=num_rows,
        dim=queries.shape[1],
        kept=num_kept(depth, num_rows, coarse=coarse is not None),
        threads=products.threads,
    )
    search = BatchSearch(
        shards,
        depth=depth,
        block_rows=min(block_rows or planned, num_rows),
        products=products,
        coarse=coarse,
        beat=beat,
        on_second_pass=on_second_pass,
    )
    for start in range(0, len(queries), query_rows):
        some = slice(start, start + query_rows)
        found = search.found(vectors[some], norms[some])
        rows[some, : found[0].shape[1]], scores[some, : found[0].shape[1]] = found
    return rows, scores


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
