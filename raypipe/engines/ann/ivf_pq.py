"""Lists of compressed vectors (IVF-PQ): trained once, then every row's code on its own."""

import faiss
import numpy as np
from numpy.typing import NDArray

from raypipe.engines.ann.machine import one_thread

CODE_BITS = 8
ENCODED_ROWS = 1024
"""Rows encoded at a time, the last filled up: a code depends on its row and on nothing else."""


def train_ivf_pq(
    vectors: NDArray[np.float32], *, lists: int, code_bytes: int, seed: int
) -> faiss.Index:
    """An index without rows: the lists' centres and the codes' parts, by k-means with this seed.

    A code is of what a vector differs from the centre of its list.

    Args:
        vectors: float32 [n, D]; fewer than the k-means need are repeated. Of more than 256 for
            each centre faiss draws so many, by the same seed.
        lists: number of lists.
        code_bytes: bytes of a row's code, a divisor of D.
        seed: of the k-means' first centres.
    """
    one_thread()
    dim = vectors.shape[1]
    index = faiss.IndexIVFPQ(
        faiss.IndexFlatIP(dim), dim, lists, code_bytes, CODE_BITS, faiss.METRIC_INNER_PRODUCT
    )
    for means in (index.cp, index.pq.cp):
        means.seed, means.min_points_per_centroid = seed % (1 << 31), 1
    least = max(lists, 1 << CODE_BITS)
    index.train(vectors if len(vectors) >= least else np.resize(vectors, (least, dim)))
    return index


def codes_of(index: faiss.Index, vectors: NDArray[np.float16]) -> NDArray[np.uint8]:
    """List and code of each row, uint8 [n, bytes]; see ENCODED_ROWS."""
    one_thread()
    codes = np.empty((len(vectors), index.sa_code_size()), np.uint8)
    filled = np.zeros((ENCODED_ROWS, index.d), np.float32)
    for start in range(0, len(vectors), ENCODED_ROWS):
        some = vectors[start : start + ENCODED_ROWS]
        filled[: len(some)], filled[len(some) :] = some, 0
        codes[start : start + len(some)] = index.sa_encode(filled)[: len(some)]
    return codes
