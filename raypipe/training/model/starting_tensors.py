"""The weights a training starts from: a checkpoint's, with the head and segments it lacks."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from raypipe.models.bert.heads import with_third_segment
from raypipe.models.folder.adapters import SEGMENTS
from raypipe.models.folder.config_checks import initializer_range
from raypipe.models.folder.conventions import AnyConventions, Conventions

POOLER = "bert.pooler.dense"
CLASSIFIER = "classifier"


def starting_tensors(
    checkpoint: Mapping[str, Tensor],
    config: Mapping[str, Any],
    conventions: AnyConventions,
    *,
    num_units: int,
    seed: int,
) -> dict[str, Tensor]:
    """The tensors of a BertForSequenceClassification, or of a BertModel for an encoder, fp32.

    Names begin with `bert.`; an encoder's too, until they are exported. A missing pooler or
    classifier is drawn from N(0, initializer_range) by the seed, as BERT's own code does; a duo's
    third segment row is what `segment_row` of its conventions says.
    """
    prefix = "" if any(name.startswith("bert.") for name in checkpoint) else "bert."
    kept = {}
    for name, tensor in checkpoint.items():
        full = name if name.startswith(("bert.", CLASSIFIER)) else prefix + name
        wanted = full.startswith("bert.") and "position_ids" not in full
        if wanted or full.startswith(CLASSIFIER):
            kept[full] = tensor.float().clone()
    if isinstance(conventions, Conventions):
        inside = ("bert.embeddings.", "bert.encoder.")
        return {name: tensor for name, tensor in kept.items() if name.startswith(inside)}
    generator = torch.Generator().manual_seed(seed)
    std, hidden = initializer_range(config), config["hidden_size"]
    if f"{POOLER}.weight" not in kept:
        kept[f"{POOLER}.weight"] = torch.randn(hidden, hidden, generator=generator) * std
        kept[f"{POOLER}.bias"] = torch.zeros(hidden)
    if len(kept.get(f"{CLASSIFIER}.bias", ())) != num_units:
        kept[f"{CLASSIFIER}.weight"] = torch.randn(num_units, hidden, generator=generator) * std
        kept[f"{CLASSIFIER}.bias"] = torch.zeros(num_units)
    if conventions.kind == "duo":
        choice = conventions.segment_row if len(kept[SEGMENTS]) < 3 else None
        kept[SEGMENTS] = with_third_segment(kept[SEGMENTS], choice).clone()
    return kept
