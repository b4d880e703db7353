"""The loss that a training minimises, and how it uses a model's output."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.training.steps import losses

BATCH_LOSSES = ("multi-label-margin", "info-nce")
"""Losses of an encoder over all passages of a batch."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss by name; `raypipe.training.steps.losses` has its equation."""

    name: str
    margin: float = 1.0
    temperature: float = 1.0
    judgements: float = 0.0
    """Weight of the cross-entropy added to a teacher's loss."""

    def of_units(
        self,
        units_BU: Tensor,
        targets: NDArray[np.float32],
        per_example: int,
        teacher: NDArray[np.float32] | None,
        relevant_label: int | None,
        *,
        duo: bool = False,
    ) -> Tensor:
        """A reranker's loss of each example, [E]; an example's inputs are together."""
        weight = 1.0 if self.name == "cross-entropy" else self.judgements
        parts = []
        if weight:
            target = torch.from_numpy(targets).to(units_BU.device)
            each = losses.cross_entropy(units_BU, target, relevant_label=relevant_label)
            parts.append(weight * each.view(-1, per_example).mean(dim=1))
        if self.name != "cross-entropy":
            raw = units_BU[:, 0]
            if relevant_label is not None:
                raw = units_BU[:, relevant_label] - units_BU[:, 1 - relevant_label]
            shape = (-1, per_example // 2, 2) if duo else (-1, per_example)
            parts.append(self.of_lists(raw.view(shape), teacher))
        return torch.stack(parts).sum(dim=0)

    def of_lists(self, scores: Tensor, teacher: NDArray[np.float32] | None) -> Tensor:
        """The loss of examples [E] by the scores of their own passages [E, L].

        For a duoBERT model the scores are those of each negative's two orders [E, L - 1, 2]. A
        teacher's loss is 0 where the teacher has no score.
        """
        if self.name == "pairwise-hinge":
            return losses.pairwise_hinge(scores, margin=self.margin)
        assert teacher is not None
        taught = torch.from_numpy(teacher).to(scores.device)
        without = taught.isnan().any(dim=1)
        taught = taught.masked_fill(without[:, None], 0.0)  # a gradient through NaN would be NaN
        if scores.dim() == 3:
            each = losses.pair_margin_mse(scores, taught)
        elif self.name == "margin-mse":
            each = losses.margin_mse(scores, taught)
        else:
            each = losses.kl_divergence(scores, taught, temperature=self.temperature)
        return each.masked_fill(without, 0.0)

    def of_batch(self, scores_QP: Tensor, positive_QP: Tensor, own_Q: Tensor) -> Tensor:
        """The loss of queries with all passages of the batch, [Q]."""
        if self.name == "multi-label-margin":
            return losses.multi_label_margin(scores_QP, positive_QP)
        return losses.info_nce(scores_QP, positive_QP, own_Q, temperature=self.temperature)
