"""One vector per sequence from the hidden states of its tokens.

Shapes: T tokens of a batch, H hidden, B sequences, R inputs of a pass of fixed shape at most.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from raypipe.models.packed import Groups

_OF_STATES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda states: states.mean(dim=1),
    "cls": lambda states: states[:, 0],
    "max": lambda states: states.amax(dim=1),
    "last": lambda states: states[:, -1],
}
"""[B, L, H] -> [B, H]."""


def pool(hidden_TH: Tensor, groups: Groups, *, pooling: str) -> Tensor:
    """One vector per sequence, in order, fp32 [B, H], from all its tokens, special ones included.

    It is their mean, the largest value of each dimension, or the first or last token's state.
    """
    parts = []
    start = 0
    for count, length in groups:
        stop = start + count * length
        parts.append(_OF_STATES[pooling](hidden_TH[start:stop].view(count, length, -1)))
        start = stop
    return torch.cat(parts)


def pool_between(hidden_TH: Tensor, edges: Tensor, *, pooling: str) -> Tensor:
    """Like `pool`, [R, H], of the sequences that `edges`, int64 [R + 1], begin and end.

    An empty sequence has some finite vector, which nobody reads.
    """
    first, behind = edges[:-1], edges[1:]
    if pooling == "cls":
        return hidden_TH[first.clamp(max=len(hidden_TH) - 1)]
    if pooling == "last":
        return hidden_TH[(behind - 1).clamp(min=0)]
    lengths = torch.diff(edges)[:, None]
    if pooling == "max":
        found = torch.segment_reduce(hidden_TH, "max", offsets=edges, unsafe=True)
        return found.masked_fill(lengths == 0, 0)
    # One sum after the other for each number: an order that no other input changes.
    sums = torch.segment_reduce(hidden_TH, "sum", offsets=edges, initial=0, unsafe=True)
    return sums / lengths.clamp(min=1)
