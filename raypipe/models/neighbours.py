"""Does a row's result here depend on the rows beside it? Tried bit by bit, not looked up.

Whether it does is the machine's: the kernels that its library of matrix products chooses by the
number of rows, and how it shares them out among threads.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from raypipe.models.body import Body
from raypipe.models.packed import Linear, linear

Shape = tuple[int, int]
"""(inner, outer) of a matrix product."""
Product = Callable[[Tensor, Linear], Tensor]

COMPANY = (1, *range(17, 34), 57, 129, 500, 777, 2048, 4096, 8192, 16384)
"""Rows of one product, as far as a forward has so many, and then all of a forward's. Without strict
mode MKL was seen to split inner sums from 17, 57 or 500 rows on with two threads, and to compute
the last one to three rows otherwise where 6 leaves a rest."""
DISTINCT = 37
"""Different rows; a company repeats them, so that every place of it is compared."""


@dataclass(frozen=True, slots=True)
class Settled:
    """With how many threads to compute, and what that promises."""

    threads: int
    proven: bool
    """Whether a row's bytes are its own, whatever the rows beside it and the threads."""


def settle(shapes: frozenset[Shape], *, device: str, threads: int, rows: int) -> Settled:
    """The threads asked for where rows keep their bytes with them, else one; tried once a process.

    Leaves torch with that number of threads.

    Args:
        shapes: of the matrix products that are asked about.
        device: cpu or cuda.
        threads: those asked for.
        rows: the most that one product has: a forward's budget of tokens.
    """
    found = _settled(shapes, device, threads, rows)
    torch.set_num_threads(found.threads)
    return found


@cache
def _settled(shapes: frozenset[Shape], device: str, threads: int, rows: int) -> Settled:
    return settled(shapes, device=device, threads=threads, rows=rows)


def shapes_of(body: Body, *more: Linear) -> frozenset[Shape]:
    """The shapes of the matrix products of every layer, and of those named beside them."""
    parts = (*body.linears, *more)
    return frozenset((weight.shape[1], weight.shape[0]) for weight, *_ in parts)


def bert_shapes(hidden: int, intermediate: int) -> frozenset[Shape]:
    """`shapes_of` any BERT of these sizes."""
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
    """`threads` if `product` keeps rows apart with them, else one thread, proven or not."""
    shapes = sorted(shapes)
    for count in dict.fromkeys((threads, 1)):
        if all(_holds(shape, device, count, rows, product) for shape in shapes):
            return Settled(count, True)
    return Settled(1, False)


@torch.inference_mode()
def _holds(shape: Shape, device: str, threads: int, most: int, product: Product) -> bool:
    """Whether rows in company have the bytes that they have alone on one thread."""
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
