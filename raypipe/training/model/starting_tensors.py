"""The weights a training starts from: a checkpoint's, with the head and segments it lacks."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from raypipe.models.family import family_of
from raypipe.models.folder.config_checks import initializer_range
from raypipe.models.folder.conventions import AnyConventions, Conventions
from raypipe.models.segments import with_third_segment


def starting_tensors(
    checkpoint: Mapping[str, Tensor],
    config: Mapping[str, Any],
    conventions: AnyConventions,
    *,
    num_units: int,
    seed: int,
) -> dict[str, Tensor]:
    """The tensors of a reranker, or of an encoder without pooler and head, fp32.

    Names are those that transformers saves a reranker by; an encoder's too, until they are
    exported. A missing pooler or classifier is drawn from N(0, initializer_range) by the seed, as
    BERT's own code does; a duo's third segment row is what `segment_row` of its conventions says.
    """
    files = family_of(config).files
    is_encoder = isinstance(conventions, Conventions)
    names = files.trained_names(checkpoint, head=not is_encoder)
    kept = {full: checkpoint[name].float().clone() for name, full in names.items()}
    if isinstance(conventions, Conventions):
        return kept
    generator = torch.Generator().manual_seed(seed)
    std, hidden = initializer_range(config), config["hidden_size"]
    pooler, pooler_bias = (files.saved_name(name, head=True) for name in files.POOLER)
    if pooler not in kept:
        kept[pooler] = torch.randn(hidden, hidden, generator=generator) * std
        kept[pooler_bias] = torch.zeros(hidden)
    classifier, bias = files.HEADS
    if len(kept.get(bias, ())) != num_units:
        kept[classifier] = torch.randn(num_units, hidden, generator=generator) * std
        kept[bias] = torch.zeros(num_units)
    if conventions.kind == "duo":
        segments = files.saved_name(files.SEGMENTS, head=True)
        choice = conventions.segment_row if len(kept[segments]) < 3 else None
        kept[segments] = with_third_segment(kept[segments], choice).clone()
    return kept
