"""How many candidates, queries and rows exact search holds at a time."""

from raypipe.errors import InputError

MEMORY_BYTES = 2 << 30
"""The limit where none is given; with many threads twice the fixed part of each."""
FIXED_BYTES = 96 << 20
"""Memory of each thread for products, what is above the floors and gathered candidates."""
CANDIDATE_BYTES = 96
"""Memory per kept candidate of one query: a list with twice as many, their order, the result."""
MAX_BATCH_QUERIES = 1024
"""Casting for each batch again costs 3% of the products of so many queries of 768 dimensions."""
MAX_BLOCK_ROWS = 8192
BLOCK_VALUES = 1 << 19
"""Values of a block, and its products: 2 MB each, which a core's caches hold or nearly so."""


def num_kept(depth: int, num_rows: int, *, coarse: bool = False) -> int:
    """Number of candidates kept for `depth` places: some to spare, at most all rows.

    Near rank 1000 of 8.8M, scores of 768-d vectors are about 1/11 of twice the error bound apart;
    the other candidates allow for duplicates. Among random vectors of length 1, the products of a
    coarse pass in bfloat16 need 1.4 times the depth there. Too few cost another pass, but never a
    result.
    """
    spare = 64 + depth // 2 if coarse else 32 + depth // 16
    return min(num_rows, depth + spare)


def plan_memory(
    memory_bytes: int | None,
    *,
    num_queries: int,
    num_rows: int,
    dim: int,
    kept: int,
    threads: int = 1,
) -> tuple[int, int]:
    """(queries per batch, rows per block) that fit the memory; see MEMORY_BYTES for None.

    A block has as many rows as the caches hold, of vectors and of products with a batch.

    Raises:
        InputError: one query and a block of one row do not fit.
    """
    if memory_bytes is None:
        memory_bytes = max(MEMORY_BYTES, 2 * threads * FIXED_BYTES)
    row_bytes = threads * (4 * dim + 32)
    query_bytes = CANDIDATE_BYTES * kept + 16 * dim
    free = memory_bytes - threads * FIXED_BYTES
    least = query_bytes + 2 * row_bytes
    if free < least:
        raise InputError(
            f"search memory: found {memory_bytes} bytes, expected at least "
            f"{threads * FIXED_BYTES + least} for {kept} candidates of dimension {dim}; raise the "
            "memory or lower the depth"
        )
    most_queries = min(num_queries, MAX_BATCH_QUERIES)
    wanted = max(1, min(MAX_BLOCK_ROWS, BLOCK_VALUES // max(dim, most_queries)))
    block_rows = min(num_rows, wanted, free // 2 // row_bytes)
    return min(most_queries, (free - block_rows * row_bytes) // query_bytes), block_rows
