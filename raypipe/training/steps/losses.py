"""Losses by their equations, one value per example; a step's loss is the mean of a global batch.

E examples, L passages of an example (its positive first), Q queries and P passages of a batch, B
inputs, U units of a head. Sums are divided by the number of examples in the whole batch, so that
neither workers nor micro-batches change the loss.
"""

import torch
import torch.nn.functional as F
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
    """For each query, the sum over positives j and others i of max(0, 1 - (s_j - s_i)), over P.

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


def pair_margin_mse(units_EN2: Tensor, teacher_EL: Tensor) -> Tensor:
    """Mean squared difference of a duoBERT model's raw scores and the teacher's margins, [E].

    The mean is over N negatives (L = N + 1) and both orders of a pair. Source: ours, Hofstätter et
    al. 2020, Eq. 4, for the pairs of Nogueira et al. 2019, Eq. 2: a duoBERT model's log odds that
    the first passage is more relevant are a margin.
    """
    margins = teacher_EL[:, :1] - teacher_EL[:, 1:]
    return ((units_EN2 - torch.stack([margins, -margins], dim=2)) ** 2).mean(dim=(1, 2))


def kl_divergence(scores_EL: Tensor, teacher_EL: Tensor, *, temperature: float) -> Tensor:
    """KL(teacher || student) of the softmaxes over an example's passages, [E].

    Source: Hinton et al. 2015, section 2, without its factor T squared.
    """
    student = F.log_softmax(scores_EL / temperature, dim=1)
    teacher = F.log_softmax(teacher_EL / temperature, dim=1)
    return (teacher.exp() * (teacher - student)).sum(dim=1)
