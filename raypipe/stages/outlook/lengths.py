"""The tokens of a model's inputs, from the numbers of pieces of their texts."""

from collections.abc import Sequence

import numpy as np

from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.opening import layouts_of
from raypipe.stages.outlook.outlook import Int64, ModelInputs
from raypipe.storage.payloads.tokens import Flat, Offsets
from raypipe.text.pairs import TextSlice, piece_counts


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
    layout, conventions = layouts_of(model)["pair"], model.reranker
    kept, rest = piece_counts(
        query.counts,
        [passage.counts for passage in passages],
        query_limit=conventions.query_limit,
        passage_limit=conventions.passage_limit,
        total_limit=conventions.total_limit,
        num_specials=layout.num_specials,
    )
    return ModelInputs(model, "pair", tuple(texts), layout.lengths([kept, *rest]), number)
