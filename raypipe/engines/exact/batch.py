"""Exact search for one batch of queries after another: candidates, exact scores, and the proof."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.blocks import Block, ShardVectors, float32_blocks
from raypipe.engines.exact.first_pass import candidates
from raypipe.engines.exact.memory import num_kept
from raypipe.engines.exact.products import Floats, Products, product_error
from raypipe.engines.exact.rescore import exact_scores_of
from raypipe.engines.exact.spans import Rows, Scores, ordered
from raypipe.engines.exact.ties import search_above

Places = NDArray[np.intp]
LEAST_QUERIES = 16
"""Fewer queries take as long to read the vectors as to multiply them, in any precision."""
MOST_UNSETTLED = 1 / 8
"""Where a coarse pass leaves more of the queries than this, the next batches do without it."""


@dataclass(slots=True)
class BatchSearch:
    """A search of these shards; see `topk_block_stream`."""

    shards: Sequence[ShardVectors]
    depth: int
    block_rows: int
    products: Products
    coarse: Products | None
    beat: Callable[[], None]
    on_second_pass: Callable[[int], None]

    @property
    def _num_rows(self) -> int:
        return sum(len(shard.vectors) for shard in self.shards)

    def found(self, queries: Floats, norms: NDArray[np.float64]) -> tuple[Rows, Scores]:
        """The rows and exact scores of one batch [Q, at most depth].

        A query whose candidates are not proven to hold its answer goes on to the next pass: the
        coarse one, that of `products`, and the second pass, which needs no proof.
        """
        width = min(self.depth, self._num_rows)
        rows = np.empty((len(queries), width), np.int64)
        scores = np.empty(rows.shape, np.float32)
        left = np.arange(len(queries))
        if self.coarse is not None and len(queries) >= LEAST_QUERIES:
            left = self._pass(self.coarse, queries, norms, rows, scores, left)
            if len(left) > MOST_UNSETTLED * len(queries):
                self.coarse = None
        if len(left):
            left = self._pass(self.products, queries, norms, rows, scores, left)
        if len(left):
            self.on_second_pass(len(left))
            rows[left], scores[left] = search_above(
                queries[left],
                norms[left],
                scores[left, -1],
                self._blocks(queries.shape[1]),
                depth=self.depth,
                error=product_error(queries.shape[1]),
            )
        return rows, scores

    def _pass(
        self,
        products: Products,
        queries: Floats,
        norms: NDArray[np.float64],
        rows: Rows,
        scores: Scores,
        asked: Places,
    ) -> Places:
        """Writes the best of the asked queries' candidates; returns those without a proof.

        Of a query, `depth` rows have a product not below `cut`, so a score not below it, less the
        error: candidates further below it are not scored. What was not kept has a product of at
        most `last`, so a score of at most `last` and the error. A candidate that is further off
        than that denies the proof of its query, whatever the library promises.
        """
        queries, norms = queries[asked], norms[asked]
        num_rows, width = self._num_rows, rows.shape[1]
        kept = num_kept(self.depth, num_rows, coarse=products is self.coarse)
        with products.ready():
            found = candidates(
                queries,
                self.shards,
                kept=kept,
                block_rows=self.block_rows,
                products=products,
                beat=self.beat,
            )
            error = products.error(queries, norms, longest=found.norm, moved=found.moved)
            places = slice(kept - width, kept - width + 1)
            cut = np.partition(found.products, kept - width, axis=1)[:, places]
            near = _above(found.products, error, products) >= _below(cut, error, products)
            exact = exact_scores_of(
                queries,
                np.where(near, found.rows, -1),
                self.shards,
                norm=found.norm,
                products=products,
                beat=self.beat,
            )
        best = ordered(np.where(near, found.rows, -1), exact)
        rows[asked], scores[asked] = (of[:, :width] for of in best)
        above = _above(found.products, error, products) >= exact
        below = _below(found.products, error, products) <= exact
        unproven = ~(above & below | ~near).all(axis=1)
        if kept < num_rows:
            unproven |= _above(found.last, error, products) >= scores[asked, -1]
        return asked[np.flatnonzero(unproven)]

    def _blocks(self, dim: int) -> Iterator[Block]:
        for block in float32_blocks(self.shards, np.empty((self.block_rows, dim), np.float32)):
            self.beat()
            yield block


def _above(found: Floats, error: NDArray[np.float64], products: Products) -> NDArray[np.float64]:
    """Upper bounds of the scores whose products were found, [Q] or [Q, n]; `error` is [Q]."""
    far = error if found.ndim == 1 else error[:, np.newaxis]
    values = found.astype(np.float64)
    return values + products.rounding * np.abs(values) + far


def _below(found: Floats, error: NDArray[np.float64], products: Products) -> NDArray[np.float64]:
    """Lower bounds of the scores whose products were found."""
    return -_above(-found, error, products)
