"""Where a model computes: device, tokens in one forward pass, threads and numerics class.

The class says whether a row's result depends on its neighbours. That depends on the machine: on the
kernels that its library of matrix products chooses for a number of rows, and on how it divides the
rows among threads. So it is tested here, bit by bit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch

from raypipe.models.family import Body
from raypipe.models.machine.device import BUDGET_TOKENS, MOST_TOKENS, numerics_class
from raypipe.models.machine.precision import quantised, set_products
from raypipe.models.packed import Linear, Product, linear

COMPANY = (1, *range(17, 34), 57, 129, 500, 777, 2048, 4096, 8192, 16384)
"""Numbers of rows to test in one product, up to those of a forward pass, which is tested last.
Without strict mode and with two threads, MKL was seen to split inner sums from 17, 57 or 500 rows
on, and to compute the last one to three rows differently if the number is not a multiple of 6."""
DISTINCT = 37
"""Number of different rows; a test repeats them, so that every position is compared."""


class Shape(NamedTuple):
    """The inner and outer sizes of a matrix product, and its dtype."""

    inner: int
    outer: int
    dtype: torch.dtype = torch.float32


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
    return frozenset(Shape(w.shape[1], w.shape[0], w.dtype) for w, *_ in parts)


def bert_shapes(hidden: int, intermediate: int) -> frozenset[Shape]:
    """`shapes_of` for any BERT of these sizes, fp32."""
    attention = {Shape(hidden, 3 * hidden), Shape(hidden, hidden)}
    return frozenset(attention | {Shape(hidden, intermediate), Shape(intermediate, hidden)})


def settled(
    shapes: Iterable[Shape],
    *,
    device: str,
    threads: int,
    rows: int,
    product: Product = linear,
) -> Settled:
    """`threads` if rows in `product` are independent with them; otherwise one, proven or not."""
    shapes = sorted(shapes, key=str)
    for count in dict.fromkeys((threads, 1)):
        if all(_holds(shape, device, count, rows, product) for shape in shapes):
            return Settled(count, True)
    return Settled(1, False)


@torch.inference_mode()
def _holds(shape: Shape, device: str, threads: int, most: int, product: Product) -> bool:
    """Whether rows computed together have the same bytes as alone on one thread."""
    inner, outer, dtype = shape
    draw = torch.Generator().manual_seed(inner * outer)
    weight = torch.randn(outer, inner, generator=draw) * inner**-0.5
    bias = torch.randn(outer, generator=draw)
    weights: Linear
    if dtype == torch.int8:
        weights, dtype = quantised((weight, bias)), torch.float32
    else:
        weights = (weight.to(device, dtype), bias.to(device, dtype))
    rows = torch.randn(DISTINCT, inner, generator=draw).to(device, dtype)
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    torch.set_num_threads(1)
    alone = torch.cat([product(row[None], weights) for row in rows])
    torch.set_num_threads(threads)
    for size in (*(size for size in COMPANY if size < most), most):
        which = torch.arange(size, device=device) % DISTINCT
        together = product(rows[which], weights)
        if not torch.equal(together.view(bits), alone[which].view(bits)):
            return False
    # Rounded to bf16, other sums show in few values of 100,000: so many different rows are needed.
    many = torch.randn(most, inner, generator=draw).to(device, dtype)
    order = torch.randperm(most, generator=draw).to(device)
    mixed = product(many[order], weights)
    torch.set_num_threads(1)
    return torch.equal(mixed.view(bits), product(many, weights)[order].view(bits))


@dataclass(frozen=True, slots=True)
class Place:
    """A device, with the amount that a model computes at once on it, and in which precision."""

    device: str
    """cpu or cuda."""
    budget_tokens: int
    """Tokens in one forward pass; they change no byte."""
    numerics: str
    """The numerics class, within which a row has equal bytes, whatever the rows beside it."""
    precision: str = "fp32"
    """Of the products."""

    def budget(self, asked: int | None) -> int:
        """Tokens in one forward pass if `asked` are requested; None means those of the place."""
        return min(asked or self.budget_tokens, MOST_TOKENS[self.device])


def unproven(device: str) -> Place:
    """A device without the test of neighbouring rows, for uses that do not depend on it; fp32."""
    return Place(device, BUDGET_TOKENS[device], numerics_class(device, proven=False))


def settle_on(
    device: str,
    shapes: frozenset[Shape],
    *,
    precision: str,
    threads: int,
    budget_tokens: int | None,
    longest: int,
    packed: bool = True,
) -> Place:
    """The place for a model; on one thread if rows would affect each other (see `settle`).

    Args:
        device: cpu or cuda.
        shapes: those of the model's matrix products.
        precision: in which they are computed.
        threads: the largest number of threads.
        budget_tokens: tokens in one forward pass; None means the device's default. As many rows are
            tested.
        longest: tokens of the longest input, which is one forward pass even if it exceeds the
            budget.
        packed: whether nothing but the products could make a row depend on its neighbours.
    """
    budget = min(budget_tokens or BUDGET_TOKENS[device], MOST_TOKENS[device])
    set_products(precision)
    rows = max(budget, longest)
    settled = settle(shapes, device=device, threads=threads, rows=rows)
    numerics = numerics_class(device, precision=precision, proven=settled.proven and packed)
    return Place(device, budget, numerics, precision)
