"""Approximate search by faiss: an index proposes rows, and their stored vectors give the scores.

An index is a graph (HNSW) over stored embeddings, built in row order on one thread, or has lists of
compressed vectors (IVF-PQ): trained once, then every row's code on its own. Its file is one that
plain faiss reads too.
"""

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from raypipe.engines.ann_settings import one_thread
from raypipe.engines.exact_candidates import Rows, Scores, in_order, ordered
from raypipe.engines.exact_scores import (
    ShardVectors,
    checked_shards,
    cut,
    exact_scores,
    gather,
    upper_norms,
    widen,
)
from raypipe.errors import CorruptError


def write_index(index: faiss.Index, path: Path) -> None:
    """Write an index.

    Raises:
        OSError: it could not be written; faiss does not give the system's number.
    """
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(errno.EIO, f"faiss could not write it ({error})", str(path)) from error


def read_index(path: Path) -> faiss.Index:
    """The index of a file.

    Raises:
        CorruptError: faiss cannot read it.
    """
    try:
        return faiss.read_index(str(path))
    except RuntimeError as error:
        raise CorruptError(f"{path.name}: not an index that faiss reads: {error}") from error


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


CODE_BITS = 8
ENCODED_ROWS = 1024
"""Rows encoded at a time, the last filled up: a code depends on its row and on nothing else."""


def train_ivf_pq(
    vectors: NDArray[np.float32], *, lists: int, code_bytes: int, seed: int
) -> faiss.Index:
    """An index without rows: the lists' centres and the codes' parts, by k-means with this seed.

    A code describes the difference between a vector and the centre of its list.

    Args:
        vectors: float32 [n, D]; fewer than the k-means need are repeated. If there are more than
            256 for each centre, faiss draws so many, by the same seed.
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


@dataclass(frozen=True, slots=True)
class Effort:
    """How far an index is searched for each query."""

    candidates: int
    """Rows to propose."""
    ef_search: int | None = None
    """Rows of a graph that are kept while it is walked."""
    probes: int | None = None
    """Lists that are read."""

    def parameters(self) -> Any:
        """As faiss takes them; its own types do not know these two."""
        library: Any = faiss
        if self.ef_search is not None:
            return library.SearchParametersHNSW(efSearch=self.ef_search)
        return library.SearchParametersIVF(nprobe=self.probes)


def approximate_topk(
    index: faiss.Index,
    queries: NDArray[np.float16],
    shards: Sequence[ShardVectors],
    *,
    depth: int,
    effort: Effort,
    threads: int = 1,
    beat: Callable[[], None] = lambda: None,
) -> tuple[Rows, Scores]:
    """The `depth` best of the rows that the index proposes for each query, with exact scores.

    Queries are asked one by one, so neither their number nor the threads change a result. Scores
    and order are those of exact search: descending score, then ascending row. Where as many rows
    are asked for as there are, all are scored: a graph may have rows that no walk reaches.

    Args:
        index: returns rows of the collection.
        queries: fp16 [Q, D].
        shards: the vectors of all rows of the index, as `checked_shards` returns them.
        depth: number of places per query.
        effort: how far to search.
        threads: queries in work at a time.
        beat: called after each query.

    Returns:
        rows int64 [Q, depth] and scores float32 [Q, depth]; missing places last, -1 and -inf.
    """
    count = min(effort.candidates, index.ntotal)
    ranges = [np.arange(shard.first_row, shard.stop_row) for shard in shards]
    every = np.concatenate([np.empty(0, np.int64), *ranges]) if count == index.ntotal else None

    def ask(query: NDArray[np.float16]) -> tuple[Rows, Scores]:
        rows, scores = np.full((1, depth), -1), np.full((1, depth), -np.inf, np.float32)
        if every is not None:
            proposals = every
        else:
            one_thread()
            vector = query[np.newaxis].astype(np.float32)
            _, proposed = index.search(vector, count, params=effort.parameters())
            proposals = np.sort(proposed[0][proposed[0] >= 0])
        exact = ordered(proposals[np.newaxis], rescored(query, proposals, shards)[np.newaxis])
        kept = min(depth, len(proposals))
        rows[:, :kept], scores[:, :kept] = exact[0][:, :kept], exact[1][:, :kept]
        return rows, scores

    answers = []
    for answer in in_order(ask, queries, threads):
        answers.append(answer)
        beat()
    empty = np.empty((0, depth), np.int64), np.empty((0, depth), np.float32)
    rows, scores = zip(empty, *answers, strict=True)
    return np.concatenate(rows), np.concatenate(scores)


def rescored(query: NDArray[np.float16], rows: Rows, shards: Sequence[ShardVectors]) -> Scores:
    """The exact scores [n] of ascending rows [n]."""
    if not len(rows):
        return np.empty(0, np.float32)
    stored = gather(shards, rows)
    vectors = np.empty(stored.shape, np.float32)
    widen(stored, vectors)
    return exact_scores(query.astype(np.float64), vectors, float(upper_norms(vectors).max()))
