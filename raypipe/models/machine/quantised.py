"""Linear layers in int8 on a CPU: integer products, whose sums are exact.

Weights have one scale for each output, inputs one for each row, so a row's bytes depend neither on
the rows beside it nor on threads. Source: Dettmers et al. 2022 (LLM.int8()), section 3.1 ("vector-
wise quantization"), without its second product for outliers.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

Quantised = tuple[Tensor, ...]
"""Weight int8 [out, in], bias fp32 [out], scale of each output fp32 [out]."""
Room = Callable[[int, int, torch.dtype], Tensor]
"""As in `raypipe.models.packed`, which computes with these layers too."""

TILE_ROWS = 256
"""Rows of a product: their integers stay in the CPU's cache until they are fp32."""
LARGEST = 127
"""Of the integers; -128 is not used, so that both signs reach equally far."""
LEAST = 1e-30
"""Least length of a row that has one of its own: 127 divided by it is finite."""


def quantised(linear: tuple[Tensor, ...]) -> Quantised:
    """A linear layer (weight [out, in], bias [out]) in integers."""
    weight, bias = linear
    scales, integers = _integers(weight)
    return integers, bias, scales[:, 0]


def int8_linear(x: Tensor, weights: Quantised, room: Room | None = None) -> Tensor:
    """x W^T + b, fp32 [rows, out], from `quantised` weights; x is rounded row by row.

    A row that is not finite has a result that is not finite.
    """
    weight, bias, scales = weights
    rows, outs = len(x), len(weight)
    y = x.new_empty(rows, outs) if room is None else room(rows, outs, torch.float32)
    columns = weight.T
    for start in range(0, rows, TILE_ROWS):
        tile = y[start : start + TILE_ROWS]
        of_rows, integers = _integers(x[start : start + TILE_ROWS])
        tile.copy_(_products(integers, columns)).mul_(of_rows)
        torch.addcmul(bias, tile, scales, out=tile)
    return y


def _integers(x: Tensor) -> tuple[Tensor, Tensor]:
    """(scale of each row, fp32 [rows, 1]; x / scale to the nearest integer, int8)."""
    most = x.abs().amax(1, keepdim=True)
    return most / LARGEST, torch.mul(x, LARGEST / most.clamp(min=LEAST)).round_().to(torch.int8)


def _products(x: Tensor, columns: Tensor) -> Tensor:
    """int32 [rows, out]. A private name of torch: there is no public one for integers."""
    if len(columns) == 1:  # of one input it returns memory as it finds it (seen in torch 2.13)
        return x.int() * columns.int()
    found: Tensor = torch._int_mm(x, columns)
    return found


@cache
def exact() -> bool:
    """Whether this torch multiplies integers on this machine's CPU without an error.

    Instructions older than VNNI add two products in 16 bits, which overflow.
    """
    if not hasattr(torch, "_int_mm"):
        return False
    shape = (33, 200)
    draw = torch.Generator().manual_seed(0)
    random = torch.randint(-LARGEST, LARGEST + 1, shape, generator=draw)
    for x in (random, torch.full(shape, LARGEST), torch.full(shape, -LARGEST)):
        for w in (random, torch.full(shape, LARGEST), torch.full(shape, -LARGEST)):
            found = _products(x.to(torch.int8), w.to(torch.int8).T)
            if not torch.equal(found.long(), x @ w.T):
                return False
    return True
