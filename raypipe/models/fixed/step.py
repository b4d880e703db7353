"""What a pass of fixed shape computes: the layers, then vectors or a reranker's units.

Shapes: T tokens of the pass, R inputs at most, E edges, H hidden, U units.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from raypipe.models.family import Body, Family, Head
from raypipe.models.fixed.attention import Varlen, over
from raypipe.models.fixed.gather import Gathered
from raypipe.models.fixed.plan import FixedShape
from raypipe.models.packed import Groups, Linear, attend_freely
from raypipe.models.pooling import Finishing, pool_between

Step = Callable[[Gathered, Groups], Tensor]
"""The result of a pass, fp32 [R, X]: a row for each input, and for each that is not there."""
Finish = Callable[[Tensor, Tensor], Tensor]
"""(last hidden states [T, H] or of first tokens [R, H], edges [E]) -> the result."""


def whole(x: Tensor, weights: Linear) -> Tensor:
    """x W^T + b in one product of all rows, rounded to the weights' dtype; no update."""
    weight, bias = weights
    return F.linear(x.to(weight.dtype), weight, bias)


def step_of(
    family: Family[Body],
    body: Body,
    shape: FixedShape,
    varlen: Varlen | None,
    finish: Finish,
    *,
    firsts: bool,
) -> Step:
    """The forward pass, and `finish` of its last hidden states.

    Args:
        family: whose forward pass it is.
        body: weights on the device.
        shape: the sizes.
        varlen: attention; None means by length.
        finish: makes the result.
        firsts: whether it wants only the first token of each input.
    """

    def step(inputs: Gathered, groups: Groups) -> Tensor:
        ids, positions, segments, edges = inputs
        attend = attend_freely if varlen is None else over(varlen, edges, shape.longest)
        # An input that is not there begins where the last one ends: any token does for it.
        wanted = edges[: shape.rows].clamp(max=shape.tokens - 1) if firsts else None
        hidden = family.forward(
            body, ids, positions, segments, groups, attend, wanted=wanted, product=whole
        )
        return finish(hidden, edges)

    return step


def vectors(shape: FixedShape, *, pooling: str, finishing: Finishing) -> Finish:
    """Embeddings, fp32 [R, dim], of the inputs' pooled states."""

    def finish(hidden_TH: Tensor, edges: Tensor) -> Tensor:
        pooled = pool_between(hidden_TH, edges[: shape.rows + 1], pooling=pooling)
        return finishing.embeddings(pooled, product=whole)

    return finish


def units(head: Head) -> Finish:
    """A reranker's units, fp32 [R, U]."""

    def finish(first_RH: Tensor, edges: Tensor) -> Tensor:
        return head.logits(first_RH)

    return finish
