"""Tests, bit by bit, whether a row's result on this machine depends on its neighbours.

That depends on the machine: on the kernels that its library of matrix products chooses for a number
of rows, and on how it divides the rows among threads.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from raypipe.models.body import Body
from raypipe.models.packed import Linear, linear

Shape = tuple[int, int]
"""The inner and outer sizes of a matrix product."""
Product = Callable[[Tensor, Linear], Tensor]

COMPANY = (1, *range(17, 34), 57, 129, 500, 777, 2048, 4096, 8192, 16384)
"""Numbers of rows to test in one product, up to those of a forward pass, which is tested last.
Without strict mode and with two threads, MKL was seen to split inner sums from 17, 57 or 500 rows
on, and to compute the last one to three rows differently if the number is not a multiple of 6."""
DISTINCT = 37
"""Number of different rows; a test repeats them, so that every position is compared."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The number of threads to compute with, and what it guarantees."""

    threads: int
    proven: bool
    """Whether a row's bytes are independent of the rows beside it and of the threads."""


def settle(shapes: frozenset[Shape], *, device: str, threads: int, rows: int) -> Settled:
    """The requested threads if rows keep their bytes with them, otherwise one.

    It tests once per process, and sets torch to that number of threads.

    Args:
        shapes: those of the matrix products to test.
        device: cpu or cuda.
        threads: the requested number.
        rows: the largest number in one product: a forward pass's budget of tokens.
    """
    found = _settled(shapes, device, threads, rows)
    torch.set_num_threads(found.threads)
    return found


@cache
def _settled(shapes: frozenset[Shape], device: str, threads: int, rows: int) -> Settled:
    return settled(shapes, device=device, threads=threads, rows=rows)


def shapes_of(body: Body, *more: Linear) -> frozenset[Shape]:
    """The shapes of the matrix products of every layer, and of the further layers given."""
    parts = (*body.linears, *more)
    return frozenset((weight.shape[1], weight.shape[0]) for weight, *_ in parts)


def bert_shapes(hidden: int, intermediate: int) -> frozenset[Shape]:
    """`shapes_of` for any BERT of these sizes."""
    attention = {(hidden, 3 * hidden), (hidden, hidden)}
    return frozenset(attention | {(hidden, intermediate), (intermediate, hidden)})


def settled(
    shapes: Iterable[Shape],
    *,
    device: str,
    threads: int,
    rows: int,
    product: Product = linear,
) -> Settled:
    """`threads` if rows in `product` are independent with them; otherwise one, proven or not."""
    shapes = sorted(shapes)
    for count in dict.fromkeys((threads, 1)):
        if all(_holds(shape, device, count, rows, product) for shape in shapes):
            return Settled(count, True)
    return Settled(1, False)


@torch.inference_mode()
def _holds(shape: Shape, device: str, threads: int, most: int, product: Product) -> bool:
    """Whether rows computed together have the same bytes as alone on one thread."""
    inner, outer = shape
    draw = torch.Generator().manual_seed(inner * outer)
    rows = torch.randn(DISTINCT, inner, generator=draw).to(device)
    weight = (torch.randn(outer, inner, generator=draw) * inner**-0.5).to(device)
    weights = (weight, torch.randn(outer, generator=draw).to(device))
    torch.set_num_threads(1)
    alone = torch.cat([product(row[None], weights) for row in rows])
    torch.set_num_threads(threads)
    for size in (*(size for size in COMPANY if size < most), most):
        which = torch.arange(size, device=device) % DISTINCT
        together = product(rows[which], weights)
        if not torch.equal(together.view(torch.int32), alone[which].view(torch.int32)):
            return False
    return True
