"""The largest float32 products of each query so far, and the floor that others have to pass."""

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.spans import Rows

CUT_QUERIES = 64
"""Queries whose lists are cut at a time: the copies stay small."""

Queries = NDArray[np.intp]
Values = NDArray[np.float32]


class BestProducts:
    """The `kept` largest products of each query, and their rows.

    A list has room for twice as many. When it is full it is cut to the `kept` largest, and the
    smallest of these becomes the query's floor: what is not above it can no longer enter. So most
    products are only compared, and few are ever sorted. Which of equal products stay is not
    defined.
    """

    def __init__(self, num_queries: int, kept: int) -> None:
        self.kept = kept
        self.floor: Values = np.full(num_queries, -np.inf, np.float32)
        """[Q]: the kept-th largest product seen when the list was last cut, else -inf."""
        self.counts = np.zeros(num_queries, np.int64)
        self.products: Values = np.full((num_queries, 2 * kept), -np.inf, np.float32)
        self.rows: Rows = np.full((num_queries, 2 * kept), -1, np.int64)

    def enter(self, queries: Queries, rows: Rows, products: Values) -> None:
        """Add products [n] of queries and rows; queries ascend."""
        if self._fitted(queries, rows, products):
            return
        self.cut()
        above = products > self.floor[queries]
        queries, rows, products = queries[above], rows[above], products[above]
        if self._fitted(queries, rows, products):
            return
        distinct = np.unique(rows)  # too many at once: as many rows as fit into every list
        for first in range(0, len(distinct), self.kept):
            some = np.isin(rows, distinct[first : first + self.kept])
            self.enter(queries[some], rows[some], products[some])

    def cut(self) -> None:
        """Keep the `kept` largest products of each query, and raise the floors."""
        width = int(self.counts.max(initial=0))
        starts = range(0, len(self.counts), CUT_QUERIES) if width > self.kept else ()
        for start in starts:
            some = slice(start, start + CUT_QUERIES)
            products, rows = self.products[some], self.rows[some]
            order = np.argpartition(products[:, :width], width - self.kept, axis=1)
            best = order[:, width - self.kept :]
            best += np.arange(len(products))[:, np.newaxis] * (2 * self.kept)
            products[:, : self.kept] = products.ravel().take(best)
            rows[:, : self.kept] = rows.ravel().take(best)
            products[:, self.kept :] = -np.inf
        np.minimum(self.counts, self.kept, out=self.counts)
        full = self.counts == self.kept
        self.floor[full] = self.products[full, : self.kept].min(axis=1)

    def _fitted(self, queries: Queries, rows: Rows, products: Values) -> bool:
        """Whether there was room for all of them, and they are in the lists."""
        counts = np.bincount(queries, minlength=len(self.counts))
        after = self.counts + counts
        if (after > 2 * self.kept).any():
            return False
        # The n-th of all goes to a place of its query's list: n, less those of queries before it.
        firsts = np.arange(len(counts)) * (2 * self.kept) + self.counts
        places = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
        places += np.arange(len(places))
        self.products.ravel()[places] = products
        self.rows.ravel()[places] = rows
        self.counts = after
        return True
