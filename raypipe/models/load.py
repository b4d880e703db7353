"""Opens a model where it is computed: by raypipe's own passes, or by sentence-transformers."""

from __future__ import annotations

from typing import Any

from raypipe.models.encoder import Encoder
from raypipe.models.encoder import load_encoder as load_packed_encoder
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.scorer import Scorer
from raypipe.models.scorer import load_scorer as load_packed_scorer


def load_encoder(model: ModelFolder, *, side: str | None = None, **place: Any) -> Encoder:
    """The encoder on a device; see `raypipe.models.encoder.load_encoder`, which has the arguments.

    Raises:
        InputError: the model is no encoder, lacks tensors, or changed since it was found.
    """
    if not model.by_library:
        return load_packed_encoder(model, side=side, **place)
    from raypipe.models.library_forward import LibraryEncoder

    assert model.encoder
    return LibraryEncoder(model, **place)


def load_scorer(model: ModelFolder, **place: Any) -> Scorer:
    """The reranker on a device; see `raypipe.models.scorer.load_scorer`, which has the arguments.

    Raises:
        InputError: the model is no reranker, lacks tensors, or changed since it was found.
    """
    if not model.by_library:
        return load_packed_scorer(model, **place)
    from raypipe.models.library_forward import LibraryScorer

    assert model.reranker
    return LibraryScorer(model, **place)
