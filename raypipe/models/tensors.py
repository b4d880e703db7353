"""Parts of every family's files: tensors by canonical name, a reranker's units, segments.

A checkpoint's tensors are compared with what config.json says, and its units with the settings. A
duoBERT model's segment table has a third row, which a checkpoint often lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError

if TYPE_CHECKING:  # importing torch takes seconds, and checking does not need it
    from torch import Tensor

    Tensors = Mapping[str, Tensor]
    """Tensors by a checkpoint's or another name."""


Shape = tuple[int, ...]
Config = Mapping[str, Any]
"""The content of config.json."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
"""The endings of files of tensors that can run code."""
UNREAD = (".onnx", ".gguf", ".h5", ".msgpack", ".ot", ".mlmodel", ".tflite")
"""Endings of weights for other programs, which nothing here reads."""
HEAD = "ForSequenceClassification"
"""The end of the name of an architecture that scores pairs."""


def is_reranker(config: Mapping[str, Any]) -> bool:
    """Whether config.json's architecture ends in a head for sequences."""
    names = config.get("architectures")
    return isinstance(names, list) and any(str(name).endswith(HEAD) for name in names)


def unit_names(num_units: int) -> dict[str, Any]:
    """The keys of config.json from which transformers knows the number of units."""
    names = {unit: f"LABEL_{unit}" for unit in range(num_units)}
    return {
        "id2label": {str(unit): name for unit, name in names.items()},
        "label2id": {name: unit for unit, name in names.items()},
    }


def third_segment_problems(num_rows: int, choice: str | None) -> list[str]:
    """Why a duoBERT model's segment table does not have, or cannot get, three rows.

    Source: duobert's checkpoint has two rows for three segments; TensorFlow's one-hot product
    makes id 2 a zero vector there, which is `zero`; `copy` is row 1.
    """
    has = f"a duoBERT model has three segments, the checkpoint has {num_rows} segment rows"
    if num_rows < 2:
        return [f"{has}; name a BERT"]
    if num_rows >= 3 and choice is not None:
        return [
            f"segment_row: {choice} is for checkpoints with two segment rows; this one has "
            f"{num_rows}, remove it"
        ]
    if num_rows == 2 and choice is None:
        return [
            f"{has}: name the third by segment_row: zero (what duobert's own code computes) or "
            "segment_row: copy (of row 1) in raypipe.json or the model's settings, or by "
            "raypipe model convert --segment-row"
        ]
    return []


def with_third_segment(segments: Tensor, choice: str | None) -> Tensor:
    """A duoBERT model's segment table, with at least three rows.

    Raises:
        InputError: see `third_segment_problems`.
    """
    import torch

    problems = third_segment_problems(len(segments), choice)
    if problems:
        raise InputError(problems)
    if len(segments) >= 3:
        return segments
    third = torch.zeros_like(segments[:1]) if choice == "zero" else segments[1:2]
    return torch.cat([segments, third])
