"""Losses by their equations, one value per example; a step's loss is the mean of a global batch.

E examples, L passages of an example (its positive first), Q queries and P passages of a batch, B
inputs, U units of a head. Sums are divided by the number of examples in the whole batch, so that
neither workers nor micro-batches change the loss.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor


def cross_entropy(units_BU: Tensor, targets_B: Tensor, *, relevant_label: int | None) -> Tensor:
    """Binary cross-entropy of each input, [B]; targets are 1.0 (relevant) or 0.0.

    Two units: softmax over both; one: its sigmoid.
    Source: Nogueira & Cho 2019, Eq. 1; over ordered pairs Nogueira et al. 2019, Eq. 2.
    """
    if relevant_label is None:
        return F.binary_cross_entropy_with_logits(units_BU[:, 0], targets_B, reduction="none")
    margins = units_BU[:, relevant_label] - units_BU[:, 1 - relevant_label]
    return F.binary_cross_entropy_with_logits(margins, targets_B, reduction="none")


def multi_label_margin(scores_QP: Tensor, positive_QP: Tensor) -> Tensor:
    """The sum over positives j and others i of max(0, 1 - (s_j - s_i)), over P, of each query.

    Source: Zhan et al. 2020 (RepBERT), Eq. 4, as torch.nn.MultiLabelMarginLoss computes it.
    """
    hinges = F.relu(1 - scores_QP[:, :, None] + scores_QP[:, None, :])
    counted = positive_QP[:, :, None] & ~positive_QP[:, None, :]
    return (hinges * counted).sum(dim=(1, 2)) / scores_QP.shape[1]


def info_nce(
    scores_QP: Tensor, positive_QP: Tensor, own_Q: Tensor, *, temperature: float
) -> Tensor:
    """-log softmax of each query's own positive among the batch's passages, [Q].

    Other passages known to be relevant are left out.
    Source: van den Oord et al. 2018, Eq. 4; in-batch negatives as Karpukhin et al. 2020, 3.2.
    """
    rows = torch.arange(len(own_Q), device=own_Q.device)
    others = positive_QP.clone()
    others[rows, own_Q] = False
    scores = (scores_QP / temperature).masked_fill(others, float("-inf"))
    return torch.logsumexp(scores, dim=1) - scores[rows, own_Q]


def pairwise_hinge(scores_EL: Tensor, *, margin: float) -> Tensor:
    """Mean over negatives of max(0, margin - (s_positive - s_negative)), [E].

    Source: CIP at TREC 2021 DL, margin 1, on the raw score of a head of one unit.
    """
    return F.relu(margin - (scores_EL[:, :1] - scores_EL[:, 1:])).mean(dim=1)


def listwise(scores_EL: Tensor) -> Tensor:
    """-log softmax of the positive over an example's passages, [E].

    Source: Gao et al. 2021 (localized contrastive estimation): the negatives are those of the run
    to be reranked.
    """
    return torch.logsumexp(scores_EL, dim=1) - scores_EL[:, 0]


def margin_mse(scores_EL: Tensor, teacher_EL: Tensor) -> Tensor:
    """Mean over negatives of the squared difference of student's and teacher's margins, [E].

    Source: Hofstätter et al. 2020, Eq. 4.
    """
    student = scores_EL[:, :1] - scores_EL[:, 1:]
    teacher = teacher_EL[:, :1] - teacher_EL[:, 1:]
    return ((student - teacher) ** 2).mean(dim=1)


def mse(scores_EL: Tensor, teacher_EL: Tensor) -> Tensor:
    """Mean over an example's passages of the squared difference to the teacher's scores, [E].

    Source: Ba & Caruana 2014, Eq. 1, on a reranker's logits, as sentence-transformers' MSELoss.
    """
    return ((scores_EL - teacher_EL) ** 2).mean(dim=1)


def pair_margin_mse(units_EN2: Tensor, teacher_EL: Tensor) -> Tensor:
    """Mean squared difference of a duoBERT model's raw scores and the teacher's margins, [E].

    The mean is over N negatives (L = N + 1) and both orders of a pair. Source: ours, Hofstätter et
    al. 2020, Eq. 4, for the pairs of Nogueira et al. 2019, Eq. 2: a duoBERT model's log odds that
    the first passage is more relevant are a margin.
    """
    margins = teacher_EL[:, :1] - teacher_EL[:, 1:]
    return ((units_EN2 - torch.stack([margins, -margins], dim=2)) ** 2).mean(dim=(1, 2))


def kl_divergence(
    scores_EL: Tensor,
    teacher_EL: Tensor,
    *,
    temperature: float,
    teacher_temperature: float | None = None,
) -> Tensor:
    """KL(teacher || student) of the softmaxes over an example's passages, [E].

    Source: Hinton et al. 2015, section 2, without its factor T squared. Scores of another scale
    than the teacher's, such as cosines, want a temperature of their own: the teacher's is the
    other one if it is given.
    """
    student = F.log_softmax(scores_EL / temperature, dim=1)
    teacher = F.log_softmax(teacher_EL / (teacher_temperature or temperature), dim=1)
    return (teacher.exp() * (teacher - student)).sum(dim=1)


BATCH_LOSSES = ("multi-label-margin", "info-nce")
"""Losses of an encoder over all passages of a batch."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss by name; `raypipe.training.losses` has its equation."""

    name: str
    margin: float = 1.0
    temperature: float = 1.0
    teacher_temperature: float | None = None
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
            each = cross_entropy(units_BU, target, relevant_label=relevant_label)
            parts.append(_of_judged(weight * each.view(-1, per_example).mean(dim=1), judged))
        if self.name != "cross-entropy":
            raw = units_BU[:, 0]
            if relevant_label is not None:
                raw = units_BU[:, relevant_label] - units_BU[:, 1 - relevant_label]
            scores = raw.view((-1, per_example // 2, 2) if duo else (-1, per_example))
            if self.name == "listwise" and first_stage is not None:
                scores = scores + self.blend * torch.from_numpy(first_stage).to(scores.device)
            if self.name == "listwise":
                parts.append(_of_judged(listwise(scores), judged))
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
            return pairwise_hinge(scores, margin=self.margin)
        assert teacher is not None
        taught = torch.from_numpy(teacher).to(scores.device)
        without = taught.isnan().any(dim=1)
        taught = taught.masked_fill(without[:, None], 0.0)  # a gradient through NaN would be NaN
        if scores.dim() == 3:
            each = pair_margin_mse(scores, taught / (self.teacher_temperature or 1.0))
        elif self.name in ("margin-mse", "mse"):
            difference = margin_mse if self.name == "margin-mse" else mse
            each = difference(scores, taught / (self.teacher_temperature or 1.0))
        else:
            each = kl_divergence(
                scores,
                taught,
                temperature=self.temperature,
                teacher_temperature=self.teacher_temperature,
            )
        return each.masked_fill(without, 0.0)

    def of_batch(self, scores_QP: Tensor, positive_QP: Tensor, own_Q: Tensor) -> Tensor:
        """The loss of queries with all passages of the batch, [Q]."""
        if self.name == "multi-label-margin":
            return multi_label_margin(scores_QP, positive_QP)
        return info_nce(scores_QP, positive_QP, own_Q, temperature=self.temperature)


def _of_judged(each: Tensor, judged: NDArray[np.bool_] | None) -> Tensor:
    """The losses, 0 for unlabelled lists, [E]."""
    if judged is None:
        return each
    return each.masked_fill(torch.from_numpy(~judged).to(each.device), 0.0)
