"""Tests, bit by bit, whether a row's result in a pass of fixed shape depends on its neighbours."""

import numpy as np
from numpy.typing import NDArray

from raypipe.models.fixed.engine import FixedEngine
from raypipe.text.inputs import Layout, TextSlice, taken

ALONE = 4
"""Rows that are computed alone."""


def rows_keep_their_bytes(engine: FixedEngine, layout: Layout, num_words: int) -> bool:
    """Whether some rows have the same bytes together, with half of the others, and alone.

    The whole pass is tested: products, attention, pooling and head, in the one shape that all
    batches have. Beside half of the rows each lies elsewhere in the pass.
    """
    shape, draw = engine.shape, np.random.default_rng(1)
    room = shape.longest - layout.num_specials
    totals = _totals(shape.tokens, room, layout.num_specials, shape.rows, draw)
    shares = np.floor(totals[None] * draw.dirichlet(np.ones(shape.texts), len(totals)).T)
    shares[-1] = totals - shares[:-1].sum(axis=0)
    flat = draw.integers(0, num_words, 4 * shape.longest).astype(np.uint32)
    texts = [
        TextSlice(flat, draw.integers(0, 3 * shape.longest, len(totals)), row.astype(np.int64))
        for row in shares
    ]

    def computed(rows: NDArray[np.int64]) -> NDArray[np.int32]:
        own = [taken(text, rows) for text in texts]
        out: NDArray[np.float32] | None = None
        found = engine.results(own, layout, budget_tokens=shape.tokens, beat=lambda in_flight: None)
        for places, result in found:
            if out is None:
                out = np.empty((len(rows), result.shape[1]), np.float32)
            out[places] = result
        assert out is not None
        return out.view(np.int32)

    every = np.arange(len(totals))
    together = computed(every)
    halves = [computed(every[part::2]) for part in (0, 1)]
    alone = {int(row): computed(every[row : row + 1]) for row in draw.choice(every, ALONE)}
    return all(np.array_equal(halves[part], together[part::2]) for part in (0, 1)) and all(
        np.array_equal(own[0], together[row]) for row, own in alone.items()
    )


def _totals(
    tokens: int, room: int, specials: int, rows: int, draw: np.random.Generator
) -> NDArray[np.int64]:
    """Numbers of pieces, drawn from 0 to `room`, of rows that fit into one pass together."""
    drawn = draw.integers(0, room + 1, rows)
    fitting = int(np.searchsorted(np.cumsum(drawn + specials), tokens, side="right"))
    return drawn[: max(1, fitting)]
