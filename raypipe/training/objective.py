"""Which loss a training minimises, and how it reads a model's output."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.training import losses

BATCH_LOSSES = ("multi-label-margin", "info-nce")
"""Of an encoder, over all documents of a batch."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss by name; `raypipe.training.losses` has its equation."""

    name: str
    margin: float = 1.0
    temperature: float = 1.0

    def of_units(
        self,
        units_BU: Tensor,
        targets: NDArray[np.float32],
        per_example: int,
        teacher: NDArray[np.float32] | None,
        relevant_label: int | None,
    ) -> Tensor:
        """A reranker's loss of each example, [E]; its inputs stand together."""
        if self.name == "cross-entropy":
            told = torch.from_numpy(targets).to(units_BU.device)
            each = losses.cross_entropy(units_BU, told, relevant_label=relevant_label)
            return each.view(-1, per_example).mean(dim=1)
        raw = units_BU[:, 0]
        if relevant_label is not None:
            raw = units_BU[:, relevant_label] - units_BU[:, 1 - relevant_label]
        return self.of_lists(raw.view(-1, per_example), teacher)

    def of_lists(self, scores_EL: Tensor, teacher: NDArray[np.float32] | None) -> Tensor:
        """The loss of examples with their own passages' scores, [E]."""
        if self.name == "pairwise-hinge":
            return losses.pairwise_hinge(scores_EL, margin=self.margin)
        assert teacher is not None
        told = torch.from_numpy(teacher).to(scores_EL.device)
        if self.name == "margin-mse":
            return losses.margin_mse(scores_EL, told)
        return losses.kl_divergence(scores_EL, told, temperature=self.temperature)

    def of_batch(self, scores_QD: Tensor, positive_QD: Tensor, own_Q: Tensor) -> Tensor:
        """The loss of queries with all documents of the batch, [Q]."""
        if self.name == "multi-label-margin":
            return losses.multi_label_margin(scores_QD, positive_QD)
        return losses.info_nce(scores_QD, positive_QD, own_Q, temperature=self.temperature)
