"""The sizes of an IVF-PQ index where a recipe leaves them open."""

import math


def lists_for(num_rows: int) -> int:
    """The number of lists for a collection: 4 times the square root of its rows.

    Source: faiss's wiki, Guidelines to choose an index: 4 sqrt(N) to 16 sqrt(N).
    """
    return max(1, min(num_rows, round(4 * math.sqrt(num_rows))))


def code_bytes_for(dim: int) -> int:
    """One byte for 8 dimensions, or for the fewest above 8 that divide the number of dimensions."""
    return next(size for size in range(max(1, dim // 8), 0, -1) if dim % size == 0)
