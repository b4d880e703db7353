"""Whether a model's settings fit its weights, from the header of their file; computes nothing.

Whoever computes checks the same again with the weights themselves. This is asked before any work:
otherwise a worker would notice only after the stages before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from raypipe.errors import InputError
from raypipe.models.folder.adapters import summed_shapes
from raypipe.models.folder.files import tensor_shapes
from raypipe.models.folder.model_folder import ModelFolder, layouts_of
from raypipe.models.folder.settings import Conventions, PairConventions, PretrainedConventions
from raypipe.text.inputs import Layouts

if TYPE_CHECKING:
    from torch import Tensor


def unfit(model: ModelFolder) -> list[str]:
    """The problems of a model's tokenizer, limits, segments and head; empty if it can compute.

    Of an adapter, tokenizer and positions are its base's, segments and head those of the two
    together, which were compared with each other when it was found.
    """
    if isinstance(model.conventions, PretrainedConventions):
        return []  # it neither encodes nor scores, and whoever asks it to is told so
    try:
        layouts = layouts_of(model)
    except InputError as error:
        return list(error.problems)
    problems = _limits(model, layouts)
    tensors = _empty_tensors(model)
    where = model.folder if model.adapter is None else model.path
    for check in (_segments, _head):
        try:
            check(model, layouts, tensors)
        except InputError as error:
            problems += [f"{where}: {problem}" for problem in error.problems]
    return problems


def _empty_tensors(model: ModelFolder) -> dict[str, Tensor]:
    """The checkpoint's tensors by saved name: their shapes, without memory or values."""
    import torch

    shapes = tensor_shapes(model.folder / "model.safetensors")
    if model.adapter is not None:
        shapes = summed_shapes(shapes, model.config(), model.adapter)
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def _limits(model: ModelFolder, layouts: Layouts) -> list[str]:
    found = model.conventions
    if isinstance(found, Conventions):
        longest = max(found.limit(side) + layouts[side].num_specials for side in layouts)
    else:
        longest = found.total_limit
    positions = model.family.files.num_positions(model.config())
    if longest <= positions:
        return []
    return [
        f"{model.folder}: the settings allow {longest} tokens, the model has {positions} positions"
    ]


def _segments(model: ModelFolder, layouts: Layouts, tensors: Mapping[str, Tensor]) -> None:
    """Returns nothing if the model's table has every segment that the settings use."""
    import torch

    from raypipe.models.tensors import with_third_segment

    found, files = model.conventions, model.family.files
    source = files.canonical_names(tensors).found.get(files.SEGMENTS)
    table = torch.empty(1, 1, device="meta") if source is None else tensors[source.name]
    if isinstance(found, PairConventions) and found.three_segments:
        table = with_third_segment(table, found.segment_row)
    highest = max(max(layout.segments) for layout in layouts.values())
    if highest >= len(table):
        raise InputError(
            f"the settings use segment {highest}, the model has {len(table)} segment rows"
        )


def _head(model: ModelFolder, layouts: Layouts, tensors: Mapping[str, Tensor]) -> None:
    """Returns nothing if a reranker has its whole head, with the units that the settings say."""
    if isinstance(model.conventions, PairConventions):
        model.family.head(tensors, relevant_label=model.conventions.relevant_label)
