"""The starting weights of a pre-training: a checkpoint's, or drawn from a configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.config_checks import initializer_range
from raypipe.models.tensors import Shape


@dataclass(frozen=True, slots=True)
class PretrainingTensors:
    """All tensors of a model in pre-training, fp32, by the names that transformers saves."""

    trained: dict[str, Tensor]
    carried: dict[str, Tensor]
    """Tensors that this training does not change and hands on: without next-sentence prediction,
    the pooler and its classifier."""


def pretraining_tensors(
    checkpoint: Mapping[str, Tensor] | None,
    config: Mapping[str, Any],
    *,
    next_sentence: bool,
    draw_missing: bool,
    seed: int,
) -> PretrainingTensors:
    """The tensors of a checkpoint, with the heads of pre-training.

    What is drawn comes from N(0, initializer_range), with biases 0 and LayerNorms 1, as in BERT's
    own code but for its cut at two standard deviations.

    Args:
        checkpoint: tensors by saved name; None draws all of them, the pooler too.
        config: config.json.
        next_sentence: whether pooler and classifier are trained.
        draw_missing: draw the heads that the checkpoint lacks.
        seed: of the draws.

    Raises:
        InputError: the checkpoint lacks a tensor and `draw_missing` is off, a tensor has another
            shape, or its decoder is not its table of word embeddings.
    """
    wanted = _shapes(config, next_sentence=next_sentence)
    generator, std = torch.Generator().manual_seed(seed), initializer_range(config)
    found = {} if checkpoint is None else _named(checkpoint, config)
    missing = [name for name in wanted if name not in found]
    if checkpoint is not None and missing and not draw_missing:
        raise InputError([lacking(name) for name in missing])
    drawn = {name: wanted[name] for name in missing}
    if checkpoint is None:
        drawn |= _pooler(config)
    for name, shape in drawn.items():
        found[name] = _drawn(name, shape, generator, std)
    problems = [
        f"{name}: expected shape {list(shape)}, found {list(found[name].shape)}"
        for name, shape in wanted.items()
        if tuple(found[name].shape) != shape
    ]
    if problems:
        raise InputError(problems)
    return PretrainingTensors(
        {name: found[name] for name in wanted},
        {name: tensor for name, tensor in found.items() if name not in wanted},
    )


def missing_at_start(
    shapes: Mapping[str, Shape], config: Mapping[str, Any], *, next_sentence: bool
) -> list[str]:
    """The tensors that a pre-training needs and a checkpoint of these shapes lacks."""
    wanted = _shapes(config, next_sentence=next_sentence)
    return [name for name in wanted if name not in _names(shapes, config).values()]


def lacking(name: str) -> str:
    """The problem of a tensor that a training needs and its start lacks."""
    return (
        f"the checkpoint lacks the tensor {name}; start from one that has it, or write "
        "model.draw_missing: true to draw it by the seed"
    )


def _shapes(config: Mapping[str, Any], *, next_sentence: bool) -> dict[str, Shape]:
    family = family_of(config)
    body = family.files.expected_shapes(config, num_labels=None)
    named = {family.files.saved_name(name, head=True): shape for name, shape in body.items()}
    return {**named, **family.pretraining.shapes(config, next_sentence=next_sentence)}


def _pooler(config: Mapping[str, Any]) -> dict[str, Shape]:
    files = family_of(config).files
    shapes = files.expected_shapes(config, num_labels=1)
    return {files.saved_name(name, head=True): shapes[name] for name in files.POOLER}


def _names(names: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, str]:
    """Name in the checkpoint -> name in the training: body, pooler and heads."""
    family = family_of(config)
    trained = family.files.trained_names(list(names), head=True)
    kept = {name: full for name, full in trained.items() if full not in family.files.HEADS}
    heads = family.pretraining.canonical_names(name for name in names if name not in kept)
    return {**kept, **{source.name: place for place, source in heads.found.items()}}


def _named(checkpoint: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    untied = family_of(config).pretraining.untied(checkpoint)
    if untied:
        raise InputError(
            [f"{name}: expected the tensor that it is tied to, found another" for name in untied]
        )
    names = _names(checkpoint, config)
    return {full: checkpoint[name].float().clone() for name, full in names.items()}


def _drawn(name: str, shape: Shape, generator: torch.Generator, std: float) -> Tensor:
    if "LayerNorm" in name and name.endswith(".weight"):
        return torch.ones(shape)
    if name.endswith("bias"):
        return torch.zeros(shape)
    return torch.randn(shape, generator=generator) * std
