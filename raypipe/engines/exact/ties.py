"""The second pass of exact search, for queries whose cut may split a group of ties."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.blocks import Block
from raypipe.engines.exact.score import exact_scores
from raypipe.engines.exact.spans import Rows, Scores, ordered

TILE_QUERIES = 256
TILE_ROWS = 8192
"""Number of products held at a time: 8 MB."""


@dataclass(slots=True)
class Best:
    """The exact top list of one query over the rows seen so far."""

    rows: Rows
    scores: Scores
    floor: float
    """A row enters only with an exact inner product above this."""


def search_above(
    queries: NDArray[np.float32],
    norms: NDArray[np.float64],
    floors: Scores,
    blocks: Iterable[Block],
    *,
    depth: int,
    error: float,
) -> tuple[Rows, Scores]:
    """The exact top lists of queries, given lower bounds for their true depth-th scores.

    Every row whose product could reach the floor is scored exactly, block by block, so a group of
    ties of any size costs one pass and no memory. Rows come in ascending order: once a list is
    full, an equal score can no longer enter.

    Args:
        queries: float32 [Q, D], fp16 values.
        norms: [Q], from `upper_norms`.
        floors: float32 [Q]; at least `depth` rows have this score or a higher one.
        blocks: all rows once, ascending.
        depth: columns of the result.
        error: a float32 product is off by at most `error` |query| |passage|.

    Returns:
        rows int64 [Q, depth], scores float32 [Q, depth]: by descending score, ties by row.
    """
    below = np.nextafter(floors, np.float32(-np.inf)).astype(np.float64)
    best = [Best(np.empty(0, np.int64), np.empty(0, np.float32), floor) for floor in below]
    exact = queries.astype(np.float64)
    for block in _tiles(blocks):
        for start in range(0, len(queries), TILE_QUERIES):
            some = slice(start, start + TILE_QUERIES)
            products = queries[some] @ block.vectors.T
            slack = error * norms[some] * block.norms.max()
            floor = np.array([entry.floor for entry in best[some]]) - slack
            near = products >= _rounded_down(floor)[:, np.newaxis]
            for query in np.flatnonzero(near.any(axis=1)):
                entry, places = best[start + query], np.flatnonzero(near[query])
                reach = products[query, places] + error * norms[start + query] * block.norms[places]
                _enter(entry, exact[start + query], block, places[reach > entry.floor], depth)
    return np.stack([entry.rows for entry in best]), np.stack([entry.scores for entry in best])


def _tiles(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        for start in range(0, len(block.rows), TILE_ROWS):
            cut = slice(start, start + TILE_ROWS)
            yield Block(block.rows[cut], block.vectors[cut], block.norms[cut])


def _rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The values as float32, rounded down."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


def _enter(
    entry: Best, query: NDArray[np.float64], block: Block, places: NDArray[np.intp], depth: int
) -> None:
    """Score the rows at `places` exactly; keep the best `depth` of these and the earlier rows."""
    if not len(places):
        return
    norm = float(block.norms[places].max())
    scores = exact_scores(query, block.vectors[places], norm)
    rows, scores = ordered(
        np.concatenate([entry.rows, block.rows[places]])[np.newaxis],
        np.concatenate([entry.scores, scores])[np.newaxis],
    )
    entry.rows, entry.scores = rows[0, :depth], scores[0, :depth]
    if len(entry.rows) == depth:
        entry.floor = max(entry.floor, float(entry.scores[-1]))
