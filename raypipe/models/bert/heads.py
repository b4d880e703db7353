"""A reranker's head on BERT: pooler and classifier."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.bert.tensor_names import prefix_of
from raypipe.models.packed import MIN_ROWS, Dropout, Linear, Updates, linear
from raypipe.models.units import check_units


@dataclass(frozen=True, slots=True)
class Head:
    """Pooler and classifier of a BertForSequenceClassification, as `models.body.Head`."""

    pooler: Linear
    classifier: Linear
    """Padded with zeros to 16 units: narrower products use other kernels (see MIN_ROWS)."""
    num_units: int
    activation: Callable[[Tensor], Tensor] = torch.tanh
    """What is computed between the two."""

    @property
    def linears(self) -> list[Linear]:
        """Both linear layers."""
        return [self.pooler, self.classifier]

    def to(self, device: str) -> "Head":
        """The weights on `cpu` or `cuda`."""
        return replace(
            self,
            pooler=tuple(tensor.to(device) for tensor in self.pooler),
            classifier=tuple(tensor.to(device) for tensor in self.classifier),
        )

    def logits(self, first_BH: Tensor, *, drop: Dropout = lambda x: x) -> Tensor:
        """Each sequence's units, fp32 [B, num_units], from the hidden state of its [CLS]."""
        pooled = drop(self.activation(linear(first_BH, self.pooler)))
        return linear(pooled, self.classifier)[:, : self.num_units]


def read_head(
    weights: Mapping[str, Tensor], *, relevant_label: int | None, updates: Updates | None = None
) -> Head:
    """The head in a checkpoint, fp32, with its pooler's low-rank update if there is one.

    Raises:
        InputError: tensors are missing (the message names all), or the number of units contradicts
            the settings.
    """
    prefix = prefix_of(weights)
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
    check_units(num_units, relevant_label)
    filled = MIN_ROWS - num_units
    classifier = (F.pad(weight, (0, 0, 0, filled)), F.pad(bias, (0, filled)))
    pooler = (*pair(wanted["pooler"]), *(updates or {}).get(wanted["pooler"], ()))
    return Head(pooler, classifier, num_units)
