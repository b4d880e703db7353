"""Facts and sizes of faiss's indexes that are known without loading faiss.

Its numbers depend on its version and the instructions it uses besides the input.
"""

import math
from importlib.metadata import version

PACKAGE = "faiss-cpu"


def faiss_version() -> str:
    """The version of faiss that is installed; faiss itself is not loaded."""
    return version(PACKAGE)


def faiss_class() -> str:
    """The numerics class of faiss here, `faiss 1.15.1 AVX512`: equal bytes are promised within it.

    Another set of instructions sums distances in another order, so a graph may have other links.
    """
    import faiss

    return f"faiss {faiss.__version__} {faiss.SIMDConfig.get_level_name()}"


def one_thread() -> None:
    """Let faiss use one thread when this thread calls it: results then have one order of sums."""
    import faiss

    faiss.omp_set_num_threads(1)


def lists_for(num_rows: int) -> int:
    """The number of lists for a collection: 4 times the square root of its rows.

    Source: faiss's wiki, Guidelines to choose an index: 4 sqrt(N) to 16 sqrt(N).
    """
    return max(1, min(num_rows, round(4 * math.sqrt(num_rows))))


def code_bytes_for(dim: int) -> int:
    """One byte for 8 dimensions, or for the fewest above 8 that divide the number of dimensions."""
    return next(size for size in range(max(1, dim // 8), 0, -1) if dim % size == 0)
