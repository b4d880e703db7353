"""What a reranker has on top of BERT: pooler and classifier, and a third segment row."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.bert.forward import MIN_ROWS, Dropout, Linear, linear


@dataclass(frozen=True, slots=True)
class Head:
    """Pooler and classifier of a BertForSequenceClassification."""

    pooler: Linear
    classifier: Linear
    """Filled up to 16 units with zeros: narrower products take other kernels (see MIN_ROWS)."""
    num_units: int

    def logits(self, first_BH: Tensor, *, drop: Dropout = lambda x: x) -> Tensor:
        """Each sequence's units, fp32 [B, num_units], from the hidden state of its [CLS]."""
        pooled = drop(torch.tanh(linear(first_BH, self.pooler)))
        return linear(pooled, self.classifier)[:, : self.num_units]


def read_head(weights: Mapping[str, Tensor], *, relevant_label: int | None) -> Head:
    """The head in a checkpoint, fp32.

    Raises:
        InputError: tensors are missing (all are named), or it has other units than the
            conventions say.
    """
    prefix = "bert." if any(name.startswith("bert.") for name in weights) else ""
    wanted = {
        "pooler": f"{prefix}pooler.dense",
        "classifier": "classifier",
    }
    missing = [
        f"{name}.{part}"
        for name in wanted.values()
        for part in ("weight", "bias")
        if f"{name}.{part}" not in weights
    ]
    if missing:
        raise InputError(
            [
                f"the checkpoint lacks the tensor {name}: it has no head that scores pairs"
                for name in missing
            ]
        )

    def pair(name: str) -> Linear:
        return weights[f"{name}.weight"].float(), weights[f"{name}.bias"].float()

    weight, bias = pair(wanted["classifier"])
    num_units = len(bias)
    expected = 1 if relevant_label is None else 2
    if num_units != expected:
        told = "null" if relevant_label is None else str(relevant_label)
        raise InputError(
            f"the classifier has {num_units} units, the conventions (relevant_label: {told}) "
            f"expect {expected}; a head of one unit has relevant_label null, one of two 0 or 1"
        )
    filled = MIN_ROWS - num_units
    classifier = (F.pad(weight, (0, 0, 0, filled)), F.pad(bias, (0, filled)))
    return Head(pair(wanted["pooler"]), classifier, num_units)


def with_third_segment(segments: Tensor, choice: str | None) -> Tensor:
    """A duo's segment table, at least three rows.

    Source: duobert's checkpoint has two rows for three segments; TensorFlow's one-hot product
    makes id 2 a zero vector there, which is `zero`; `copy` is row 1.

    Raises:
        InputError: two rows and no choice, or three and a choice.
    """
    if len(segments) >= 3:
        if choice is not None:
            raise InputError(
                f"segment_row: {choice} is for checkpoints with two segment rows; this one has "
                f"{len(segments)}, remove it"
            )
        return segments
    if choice is None:
        raise InputError(
            f"a duo model has three segments, the checkpoint has {len(segments)} segment rows; "
            "name the third with segment_row: zero (what duobert's own code computes) or copy "
            "(of row 1)"
        )
    third = torch.zeros_like(segments[:1]) if choice == "zero" else segments[1:2]
    return torch.cat([segments, third])
