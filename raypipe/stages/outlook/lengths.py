"""The tokens of a model's inputs, from the numbers of pieces of their texts."""

from collections.abc import Sequence

import numpy as np

from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.opening import layouts_of
from raypipe.stages.outlook.outlook import Int64, ModelInputs, Seen
from raypipe.stages.query_blocks import Sides
from raypipe.storage.payloads import Flat, Offsets
from raypipe.text.inputs import TextSlice, cut_to

MOST_INPUTS = 20_000
"""Inputs of which an outlook knows the lengths, evenly spaced over the sampled queries."""


def texts_of(flat: Flat, offsets: Offsets, rows: Int64) -> TextSlice:
    """The pieces of some rows as the texts of inputs, one each, in the order of `rows`."""
    return TextSlice(flat, offsets[rows], offsets[rows + 1] - offsets[rows])


def encoder_inputs(model: ModelFolder, side: str, text: TextSlice, number: float) -> ModelInputs:
    """What an encoder reads of these texts: at most its limit of pieces, and special tokens."""
    counts = np.minimum(text.counts, model.encoder.limit(side))
    lengths = layouts_of(model)[side].lengths([counts])
    return ModelInputs(model, side, (text,), lengths, number)


def pair_inputs(model: ModelFolder, texts: Sequence[TextSlice], number: float) -> ModelInputs:
    """What a reranker reads of these queries and passages, cut to its limits."""
    query, *passages = texts
    layout = layouts_of(model)["pair"]
    kept = cut_to(model.reranker, query, passages, num_specials=layout.num_specials)
    lengths = layout.lengths([text.counts for text in kept])
    return ModelInputs(model, "pair", tuple(texts), lengths, number)


def sampled_pairs(seen: Seen, sides: Sides, model: ModelFolder, first: int) -> list[TextSlice]:
    """The texts of inputs of a reranker: sampled queries with passages that a search finds first.

    A query and one passage each, or every ordered pair of its first `first` passages.
    """
    duo = model.reranker.num_passages == 2
    found = seen.found(sides.queries, sides.collection, first, least=2 if duo else 1)
    query, place = np.nonzero(found >= 0)
    rows = [query, found[query, place]]
    if duo:
        query, left, right = np.nonzero((found[:, :, None] >= 0) & (found[:, None, :] >= 0))
        kept = left != right
        query, left, right = query[kept], left[kept], right[kept]
        rows = [query, found[query, left], found[query, right]]
    few = np.linspace(0, len(rows[0]) - 1, min(len(rows[0]), MOST_INPUTS)).astype(np.int64)
    prefixes = [model.conventions.prefix(side) for side in ("query", "passage")]
    of_queries = seen.pieces(sides.queries, model, prefixes[0])
    of_passages = seen.pieces(sides.collection, model, prefixes[1])
    pieces = [of_queries, *[of_passages] * (len(rows) - 1)]
    found_sides = zip(pieces, rows, strict=True)
    return [texts_of(each.flat, each.offsets, of[few]) for each, of in found_sides]
