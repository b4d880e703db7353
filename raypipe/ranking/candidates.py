"""The candidates of a run that a reranker scores: the first k, or their ordered pairs."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from raypipe.ranking.order import begins

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Keys = tuple[Int64, Int64, Int64]
"""query_row, passage_row, other_row, each int64 [N]."""


def singles(query_rows: Int32, passage_rows: Int64, ranks: Int32, *, k0: int) -> Keys:
    """The candidates of rank 1 to k0, sorted; other_row is -1."""
    queries, rows = _first(query_rows, passage_rows, ranks, k0)
    return queries, rows, np.full(len(rows), -1, np.int64)


def pairs(
    query_rows: Int32,
    passage_rows: Int64,
    ranks: Int32,
    *,
    k1: int,
    sample: int | None = None,
    seed: int = 0,
) -> Keys:
    """Every (i, j), i != j, among each query's ranks 1 to k1, sorted; with `sample` m of each i.

    The j of an i are drawn without replacement: those with the m smallest hashes of (seed, query
    row, i, j), so that a draw depends only on the set of candidates.

    Source: Nogueira et al. 2019, Eq. 7 (SAMPLE); all pairs if m >= k1 - 1.
    """
    queries, rows = _first(query_rows, passage_rows, ranks, k1)
    blocks = [_of_query(query, found, sample, seed) for query, found in _by_query(queries, rows)]
    if not blocks:
        none = np.empty(0, np.int64)
        return none, none, none
    first, second, third = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return first, second, third


def missing(keys: Keys, others: Keys) -> NDArray[np.bool_]:
    """Whether each key is missing from the others, bool [N]."""
    return positions(keys, others) < 0


def positions(keys: Keys, others: Keys) -> Int64:
    """The position of each key among the others, -1 if it is missing, int64 [N].

    If a key is twice among the others, the first position counts.
    """
    num_others = len(others[0])
    together = [np.concatenate(part) for part in zip(others, keys, strict=True)]
    if not len(together[0]):
        return np.empty(0, np.int64)
    order = np.lexsort(together[::-1])  # stable: the others come before equal keys
    new = begins(*(part[order] for part in together))
    leader = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
    found = np.empty(len(order), np.int64)
    found[order] = np.where(leader < num_others, leader, -1)
    return found[num_others:]


def _first(query_rows: Int32, passage_rows: Int64, ranks: Int32, k: int) -> tuple[Int64, Int64]:
    """Query and passage rows of the candidates of rank 1 to k, sorted."""
    kept = ranks <= k
    queries, rows = query_rows[kept].astype(np.int64), passage_rows[kept]
    order = np.lexsort((rows, queries))
    return queries[order], rows[order]


def _of_query(query: int, rows: Int64, sample: int | None, seed: int) -> Keys:
    count = len(rows)
    others = np.empty((count, max(count - 1, 0)), np.int64)
    for place in range(count):
        others[place] = np.delete(rows, place)
    if sample is not None and sample < count - 1:
        hashes = _hash(seed, query, np.repeat(rows, count - 1), others.ravel())
        drawn = np.argsort(hashes.reshape(others.shape), axis=1, kind="stable")[:, :sample]
        others = np.take_along_axis(others, np.sort(drawn, axis=1), axis=1)
    first = np.repeat(rows, others.shape[1])
    return np.full(len(first), query, np.int64), first, others.ravel()


def _by_query(queries: Int64, rows: Int64) -> Iterator[tuple[int, Int64]]:
    found, starts = np.unique(queries, return_index=True)
    if len(found):
        yield from zip(found.tolist(), np.split(rows, starts[1:]), strict=True)


def _hash(seed: int, query: int, first: Int64, second: Int64) -> NDArray[np.uint64]:
    """A 64-bit mix of the four numbers (splitmix64's finaliser, one number after the other)."""
    mixed = np.zeros(len(first), np.uint64)
    for part in (np.int64(seed), np.int64(query), first, second):
        mixed = mixed ^ np.asarray(part).astype(np.uint64)
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
