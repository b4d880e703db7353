"""What keeps the weights of a splade model few: FLOPS and L1 over all texts of a step.

Both follow from each word's mean weight, of queries (row 0) and of passages (row 1), fp32 [2, V].
The mean is over the whole step: a mean of each worker's or each batch's own would be another
penalty, as FLOPS squares it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from raypipe.config.training import Loss, Sparsity
from raypipe.training.comm import Comm


@dataclass(frozen=True, slots=True)
class Penalty:
    """FLOPS and L1 in one step, with their weights for queries and for passages."""

    flops: tuple[float, float]
    l1: tuple[float, float]
    means: Tensor | None = None
    """Each word's mean weight over the texts of all batches of the step, fp32 [2, V]; None means
    that the step has one batch."""

    def of_means(self, means_2V: Tensor) -> Tensor:
        """The penalty, a scalar.

        FLOPS is the sum over words of the squared mean weight. L1 is the mean of a text's sum of
        weights, which are never below 0.

        Source: Formal et al. 2021 (SPLADE), after Paria et al. 2020; L1 of queries
        Lassance & Clinchant 2022.
        """
        flops, l1 = (means_2V.new_tensor(each) for each in (self.flops, self.l1))
        return flops @ means_2V.square().sum(dim=1) + l1 @ means_2V.sum(dim=1)

    def share(self, sums_2V: Tensor, counts: tuple[int, int], comm: Comm) -> tuple[Tensor, Tensor]:
        """(what has this worker's share of the batch's gradient, the penalty), scalars.

        The value of the first means nothing. A batch's shares add up over the workers to its
        gradient, and those of a step's batches, each divided by their number, to the step's.

        Args:
            sums_2V: the sums of the weights of this worker's texts in the batch, with gradients.
            counts: queries and passages of all workers in the batch.
            comm: which worker this is.
        """
        divisor = sums_2V.new_tensor(counts)[:, None]
        means = self.means
        if means is None:
            means = sums_2V.detach().clone()
            comm.sum_([means])
            means /= divisor
        means = means.clone().requires_grad_()
        penalty = self.of_means(means)
        (slope,) = torch.autograd.grad(penalty, means)
        return (sums_2V / divisor * slope).sum(), penalty.detach()


def penalty_of(loss: Loss, number: int) -> Penalty | None:
    """That of a step, counted from 0; None if the loss has neither FLOPS nor L1."""
    if loss.flops is None and loss.l1 is None:
        return None
    return Penalty(_weights(loss.flops, number), _weights(loss.l1, number))


def _weights(found: Sparsity | None, number: int) -> tuple[float, float]:
    if found is None:
        return 0.0, 0.0
    grown = growth(number, found.warmup)
    return grown * found.queries, grown * found.passages


def growth(number: int, warmup: int) -> float:
    """The part of its weight that a penalty has in a step, counted from 0.

    It grows with the square of the step's number, counted from 1, and is whole from step `warmup`
    on. Source: Formal et al. 2021 (SPLADE), after Paria et al. 2020.
    """
    return min(1.0, (number + 1) / warmup) ** 2 if warmup else 1.0
