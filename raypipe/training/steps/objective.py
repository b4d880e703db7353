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
    teacher_weight: float = 0.0
    """Weight of the kl to a teacher added to listwise."""
    blend: float = 0.0
    """a of listwise's scores, s = a z + f."""

    def of_units(
        self,
        units_BU: Tensor,
        targets: NDArray[np.float32],
        per_example: int,
        teacher: NDArray[np.float32] | None,
        relevant_label: int | None,
        *,
        duo: bool = False,
        judged: NDArray[np.bool_] | None = None,
        first_stage: NDArray[np.float32] | None = None,
    ) -> Tensor:
        """A reranker's loss of each example, [E]; an example's inputs are together.

        Args:
            units_BU: the head's.
            targets: of the cross-entropy, [B].
            per_example: inputs of an example.
            teacher: see `of_lists`.
            relevant_label: the unit for relevant.
            duo: whether an input has two passages.
            judged: bool [E]; unlabelled lists learn from the teacher alone. None means all are.
            first_stage: z of listwise, [E, L]; None means 0.
        """
        weight = 1.0 if self.name == "cross-entropy" else self.judgements
        parts = []
        if weight:
            target = torch.from_numpy(targets).to(units_BU.device)
            each = losses.cross_entropy(units_BU, target, relevant_label=relevant_label)
            parts.append(_of_judged(weight * each.view(-1, per_example).mean(dim=1), judged))
        if self.name != "cross-entropy":
            raw = units_BU[:, 0]
            if relevant_label is not None:
                raw = units_BU[:, relevant_label] - units_BU[:, 1 - relevant_label]
            scores = raw.view((-1, per_example // 2, 2) if duo else (-1, per_example))
            if self.name == "listwise" and first_stage is not None:
                scores = scores + self.blend * torch.from_numpy(first_stage).to(scores.device)
            if self.name == "listwise":
                parts.append(_of_judged(losses.listwise(scores), judged))
            if self.name != "listwise":
                parts.append(self.of_lists(scores, teacher))
            elif teacher is not None:
                parts.append(self.teacher_weight * self.of_lists(scores, teacher))
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


def _of_judged(each: Tensor, judged: NDArray[np.bool_] | None) -> Tensor:
    """The losses, 0 for unlabelled lists, [E]."""
    if judged is None:
        return each
    return each.masked_fill(torch.from_numpy(~judged).to(each.device), 0.0)
