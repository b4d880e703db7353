"""transformers' module of a T5: its shapes without memory, and with a checkpoint's weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.tensors import Shape
from raypipe.models.whole.module import built
from raypipe.storage.records import canonical

if TYPE_CHECKING:
    from torch import Tensor, nn

WORDS, HEAD = "shared.weight", "lm_head.weight"
"""The table of word pieces, and the layer that gives their logits."""
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""The table again, as a checkpoint may have it under the names of those who read it."""


def shapes_of(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Shapes of the tensors by transformers' names, the table of word pieces once."""
    return dict(_shapes(canonical(dict(config))))


def module_of(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """The module with these weights, fp32, which does not drop out.

    Args:
        config: config.json.
        weights: by transformers' names; without HEAD, the table of word pieces is in its place.

    Raises:
        InputError: tensors are missing; the message names all.
    """
    module = _built(config)
    given = {**weights, HEAD: weights.get(HEAD, weights.get(WORDS))}
    missing = [
        name for name in module.state_dict() if name not in COPIES and given.get(name) is None
    ]
    if missing:
        raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
    found = {name: tensor.float() for name, tensor in given.items() if tensor is not None}
    module.load_state_dict(found, strict=False, assign=True)
    module.set_input_embeddings(module.shared)
    return module.eval()  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def _shapes(config: bytes) -> tuple[tuple[str, Shape], ...]:
    held = _built(json.loads(config)).state_dict()
    return tuple((name, tuple(held[name].shape)) for name in held if name not in COPIES)


def _built(config: Mapping[str, Any]) -> Any:
    """The module without memory for its weights."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    with torch.device("meta"):
        return built(config, AutoModelForSeq2SeqLM)
