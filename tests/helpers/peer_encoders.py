"""Encoders with random weights that sentence-transformers makes, saves and computes."""

import drawn_models
import numpy as np

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder
from raypipe.stages.texts.query_tokens import tokenized


def peer(folder, kind, pooling, *after, prompts=None, **settings):
    """`kind` with this pooling and then these modules, saved in `folder` and opened from there."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    drawn_models.make(folder / "drawn", kind)
    modules = [Transformer(str(folder / "drawn")), Pooling(32, pooling_mode=pooling), *after]
    made = SentenceTransformer(modules=modules, device="cpu", prompts=prompts, **settings)
    made.save_pretrained(str(folder))
    return SentenceTransformer(str(folder), device="cpu")


def ours(folder, texts, side="passage", **settings):
    """The embeddings of such a folder, fp32, and the model."""
    model = resolve_model(str(folder), settings=settings or None)
    pieces = tokenized(open_tokenizer(model), model, texts, side)
    return load_encoder(model).encode(*pieces, side=side), model


def apart(ours, theirs):
    """The largest difference of a number."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max())
