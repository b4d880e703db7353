"""Texts A and B for next-sentence prediction, cut from stretches."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raypipe.text.inputs import TextSlice
from raypipe.training.pretraining.masking import PAIR, generator
from raypipe.training.pretraining.sources import Chosen, TextSource, rows_of, texts_of

Int64 = NDArray[np.int64]
FOLLOWS, OTHER = 0, 1
"""B follows A; B is of another stretch. The units of BERT's own classifier."""


def pairs(
    sources: Sequence[TextSource],
    chosen: Chosen,
    rows: Int64,
    *,
    separator: int,
    limit: int,
    seed: int,
    step: int,
) -> tuple[TextSlice, TextSlice, Int64]:
    """(A, B, FOLLOWS or OTHER) of each stretch, [B].

    A is the beginning of a stretch, up to a place drawn uniformly. For about half of them B is the
    rest of the stretch. For the others it begins at a drawn place of another stretch of the same
    set (a held-out one if this one is held out) and ends where that ends, or where A and B together
    have `limit` pieces. A set with a single such stretch has no others.

    Source: Devlin et al. 2019, section 3.1; where a text is cut is ours, as a passage's sentences
    are not known.

    Args:
        sources: the training sets.
        chosen: the stretches, of at least two pieces.
        rows: their rows.
        separator: the id of [SEP].
        limit: pieces of both texts together.
        seed: the training's seed.
        step: the step, from 1, or MEASURED.
    """
    text = texts_of(sources, rows, separator)
    sizes = text.counts.tolist()
    first = np.empty(len(rows), np.int64)
    others = chosen.places.copy()
    fractions = np.empty(len(rows))
    for number, row in enumerate(rows.tolist()):
        drawn = generator(PAIR, seed, step, row)
        first[number] = drawn.integers(1, sizes[number])
        is_other, fractions[number] = drawn.random() < 0.5, drawn.random()
        source, place = sources[chosen.of_source[number]], int(chosen.places[number])
        low, high = _alike(source, place)
        if is_other and high - low > 1:
            others[number] = low + (place - low + drawn.integers(1, high - low)) % (high - low)
    differs = others != chosen.places
    second = texts_of(sources, rows_of(sources, Chosen(chosen.of_source, others)), separator)
    begin = np.where(differs, (fractions * second.counts).astype(np.int64), first)
    room = np.minimum(second.counts - begin, limit - first)
    return (
        TextSlice(text.flat, text.starts, first),
        TextSlice(second.flat, second.starts + begin, room),
        np.where(differs, OTHER, FOLLOWS),
    )


def _alike(source: TextSource, place: int) -> tuple[int, int]:
    """The places that are held out like this one, or trained like it."""
    if place < source.held_out:
        return 0, source.held_out
    return source.held_out, source.table.num_stretches
