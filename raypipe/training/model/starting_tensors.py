"""The starting weights of a training: a checkpoint's, plus the head and segments that it lacks."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.config_checks import initializer_range
from raypipe.models.folder.conventions import AnyConventions, Conventions, PretrainedConventions
from raypipe.models.segments import with_third_segment
from raypipe.training.model.pretraining_tensors import lacking


def starting_tensors(
    checkpoint: Mapping[str, Tensor],
    config: Mapping[str, Any],
    conventions: AnyConventions,
    *,
    num_units: int,
    seed: int,
    draw_missing: bool = False,
    new_head: bool = False,
) -> dict[str, Tensor]:
    """The tensors of a reranker, or of an encoder without pooler and head, fp32.

    Names are those under which transformers saves a reranker; for an encoder too, until the export.
    A missing classifier is drawn from N(0, initializer_range) with the seed, as in BERT's own code,
    and with `draw_missing` a missing pooler too; a duoBERT model's third segment row follows
    `segment_row` in its settings. With `new_head` a classifier is drawn even if the checkpoint has
    one: that one judges something else.

    Raises:
        InputError: the pooler is missing, or a third segment cannot be had (`with_third_segment`).
    """
    assert not isinstance(conventions, PretrainedConventions)
    files = family_of(config).files
    is_encoder = isinstance(conventions, Conventions)
    names = files.trained_names(checkpoint, head=not is_encoder)
    kept = {full: checkpoint[name].float().clone() for name, full in names.items()}
    if isinstance(conventions, Conventions):
        return kept
    generator = torch.Generator().manual_seed(seed)
    std, hidden = initializer_range(config), files.as_bert(config)["hidden_size"]
    pooler, pooler_bias = (files.saved_name(name, head=True) for name in files.POOLER)
    missing = [name for name in (pooler, pooler_bias) if name not in kept]
    if missing and not draw_missing:
        raise InputError([lacking(name) for name in missing])
    if missing:
        kept[pooler] = torch.randn(hidden, hidden, generator=generator) * std
        kept[pooler_bias] = torch.zeros(hidden)
    classifier, bias = files.HEADS
    if new_head or len(kept.get(bias, ())) != num_units:
        kept[classifier] = torch.randn(num_units, hidden, generator=generator) * std
        kept[bias] = torch.zeros(num_units)
    if conventions.kind == "duo":
        segments = files.saved_name(files.SEGMENTS, head=True)
        table = kept.get(segments, torch.empty(0, hidden))
        choice = conventions.segment_row if len(table) < 3 else None
        kept[segments] = with_third_segment(table, choice).clone()
    return kept
