"""A graph (HNSW) over stored embeddings, built in row order on one thread."""

from collections.abc import Callable, Iterable
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from raypipe.engines.ann.machine import one_thread
from raypipe.engines.exact.blocks import ShardVectors, checked_shards, cut

ADDED_ROWS = 1024
"""Rows added at a time. faiss orders the rows of one addition by their levels, so the number is
fixed, and no shard or machine changes it."""


def build_hnsw(
    blocks: Iterable[tuple[int, NDArray[np.float16]]],
    dim: int,
    *,
    links: int,
    ef_construction: int,
    beat: Callable[[], None],
) -> faiss.Index:
    """The index of all rows; it returns rows of the collection, and holds the fp16 values as such.

    Args:
        blocks: fp16 [n, D] with the row of its first vector, in any order, disjoint.
        dim: D.
        links: of a row to others, on each level but the lowest, which has twice as many.
        ef_construction: candidates looked at for each row's links.
        beat: called before each addition.
    """
    one_thread()
    library: Any = faiss  # its own types are wrong here
    fp16, product = library.ScalarQuantizer.QT_fp16, library.METRIC_INNER_PRODUCT
    graph = library.IndexHNSWSQ(dim, fp16, links, product)
    graph.hnsw.efConstruction = ef_construction
    index = faiss.IndexIDMap(graph)
    for parts in cut(checked_shards(blocks, dim), ADDED_ROWS):
        beat()
        index.add_with_ids(*rows_of(parts))
    return index


def rows_of(parts: Iterable[ShardVectors]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The vectors of a piece as float32 [n, D], and their rows [n]."""
    listed = list(parts)
    vectors = np.concatenate([part.vectors.astype(np.float32) for part in listed])
    rows = np.concatenate([np.arange(part.first_row, part.stop_row) for part in listed])
    return vectors, rows
