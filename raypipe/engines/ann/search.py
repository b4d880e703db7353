"""Approximate search: an index proposes rows, and their stored vectors give the scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from raypipe.engines.ann.machine import one_thread
from raypipe.engines.exact.blocks import ShardVectors, gather, upper_norms
from raypipe.engines.exact.score import exact_scores, widen
from raypipe.engines.exact.spans import Rows, Scores, ordered
from raypipe.engines.exact.threads import in_order


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
            found = every
        else:
            one_thread()
            asked = query[np.newaxis].astype(np.float32)
            _, proposed = index.search(asked, count, params=effort.parameters())
            found = np.sort(proposed[0][proposed[0] >= 0])
        exact = ordered(found[np.newaxis], rescored(query, found, shards)[np.newaxis])
        kept = min(depth, len(found))
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
