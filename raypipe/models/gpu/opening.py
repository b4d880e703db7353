"""How a model is opened on a device: in passes of fixed shape if they are proven, or in batches.

It is tested, bit by bit, whether a row's result in a pass of fixed shape depends on its neighbours.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from raypipe.models.family import Family
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.gpu.passes import (
    RESIDENT_BYTES,
    Finish,
    FixedEngine,
    FixedShape,
    Varlen,
    found_kernels,
    found_varlen,
    step_of,
)
from raypipe.models.machine.device import (
    MOST_TOKENS,
    Place,
    numerics_class,
    settle_on,
    shapes_of,
    tokens_of_pass,
)
from raypipe.models.machine.precision import DTYPES, set_products
from raypipe.models.packed import Between, Body, Linear, Plain
from raypipe.text.inputs import Layout, TextSlice, taken

ALONE = 5
"""Rows that are computed alone: the longest, and others of evenly rising length."""


def rows_keep_their_bytes(engine: FixedEngine, layout: Layout, num_words: int) -> bool:
    """Whether some rows have the same bytes together, with half of the others, and alone.

    The whole pass is tested: products, attention, pooling and head, in the one shape that all
    batches have. Beside half of the rows each lies elsewhere in the pass.
    """
    shape, draw = engine.shape, np.random.default_rng(1)
    room = shape.longest - layout.num_specials
    totals = _totals(shape.tokens, room, layout.num_specials, shape.rows, draw)
    shares = np.floor(totals[None] * draw.dirichlet(np.ones(shape.texts), len(totals)).T)
    shares[-1] = totals - shares[:-1].sum(axis=0)
    flat = draw.integers(0, num_words, 4 * shape.longest).astype(np.uint32)
    texts = [
        TextSlice(flat, draw.integers(0, 3 * shape.longest, len(totals)), row.astype(np.int64))
        for row in shares
    ]

    def computed(rows: NDArray[np.int64]) -> NDArray[np.int32]:
        own = [taken(text, rows) for text in texts]
        out: NDArray[np.float32] | None = None
        found = engine.results(own, layout, budget_tokens=shape.tokens, beat=lambda in_flight: None)
        for places, result in found:
            if out is None:
                out = np.empty((len(rows), result.shape[1]), np.float32)
            out[places] = result
        assert out is not None
        return out.view(np.int32)

    every = np.arange(len(totals))
    together = computed(every)
    halves = [computed(every[part::2]) for part in (0, 1)]
    by_length = np.argsort(totals, kind="stable")
    chosen = by_length[np.arange(1, ALONE + 1) * len(totals) // ALONE - 1]
    alone = {int(row): computed(every[row : row + 1]) for row in chosen}
    return all(np.array_equal(halves[part], together[part::2]) for part in (0, 1)) and all(
        np.array_equal(own[0], together[row]) for row, own in alone.items()
    )


def _totals(
    tokens: int, room: int, specials: int, rows: int, draw: np.random.Generator
) -> NDArray[np.int64]:
    """Numbers of pieces, drawn from 0 to `room`, of rows that fit into one pass together."""
    drawn = draw.integers(0, room + 1, rows)
    fitting = int(np.searchsorted(np.cumsum(drawn + specials), tokens, side="right"))
    return drawn[: max(1, fitting)]


FinishOf = Callable[[FixedShape], Finish]


@dataclass(frozen=True, slots=True)
class FixedSettings:
    """How passes of fixed shape are computed."""

    varlen: Varlen | None = None
    """Attention for sequences of any length; None means PyTorch's kernel, if the device has it."""
    between: Between | None = None
    """The work between products; None means fused kernels, if the device has them."""
    resident_bytes: int = RESIDENT_BYTES
    """Word pieces up to this size lie on the device as a whole."""


@dataclass(frozen=True, slots=True)
class Work:
    """A model's work on its inputs: their layout, their length, and the results of a pass."""

    layout: Layout
    longest: int
    """The largest number of tokens of an input."""
    finish: FinishOf
    """Makes the results of a pass of this shape."""
    firsts: bool
    """Whether it wants only the first token of each input."""


def open_fixed(
    family: Family,
    body: Body,
    work: Work,
    settings: FixedSettings,
    *,
    device: str,
    precision: str,
    budget_tokens: int | None,
) -> tuple[FixedEngine, Place]:
    """The engine, and the place with its numerics class.

    A pass has as many tokens as the budget, by default those of the GPU's model, or half as many,
    and so on, until a pass fits into the device's memory. Their number is part of the numerics
    class: products of other sizes may add in another order.

    Raises:
        torch.OutOfMemoryError: not even the longest input fits.
    """
    set_products(precision)
    request = min(budget_tokens or tokens_of_pass(device), MOST_TOKENS[device])
    tokens = max(request, work.longest, 16)
    varlen = settings.varlen or found_varlen(
        device, DTYPES[precision], body.width // body.num_heads, body.windows
    )
    between = settings.between or found_kernels(device, DTYPES[precision], body.width)
    own = body if between is None else body.fused(between)

    def build(tokens: int) -> FixedEngine:
        shape = FixedShape(tokens, work.longest, len(work.layout.segments))
        step = step_of(family, own, shape, varlen, work.finish(shape), firsts=work.firsts)
        return FixedEngine(
            step,
            shape,
            device=device,
            precision=precision,
            resident_bytes=settings.resident_bytes,
        )

    while True:
        try:
            engine = build(tokens)
            proven = rows_keep_their_bytes(engine, work.layout, body.num_words)
            break
        except torch.OutOfMemoryError:
            if tokens <= max(work.longest, 16):
                raise
        torch.cuda.empty_cache()  # here the traceback, which holds the tensors, is gone
        tokens = max(tokens // 2, work.longest, 16)
    attention = "by length" if varlen is None else "of any length"
    how = f"eager passes of {tokens} tokens, attention {attention}"
    if own is not body and not isinstance(between, Plain):
        how += ", fused"
    numerics = numerics_class(device, precision=precision, proven=proven, how=how)
    return engine, Place(device, tokens, numerics, precision)


def placed(
    model: ModelFolder,
    body: Body,
    work: Work,
    *more: Linear,
    device: str,
    threads: int,
    budget_tokens: int | None,
    fixed: FixedSettings | None,
) -> tuple[FixedEngine | None, Place]:
    """The engine, or None without passes of fixed shape, and the place.

    Args:
        model: its family and precision.
        body: weights on the device.
        work: what is computed of an input.
        more: linear layers beside the body's.
        device: cpu or cuda.
        threads: see `settle`.
        budget_tokens: tokens in one forward pass; up to this number of rows are tested together.
        fixed: see `load_encoder`.
    """
    if fixed is not None or device == "cuda":
        return open_fixed(
            model.family,
            body,
            work,
            fixed or FixedSettings(),
            device=device,
            precision=model.precision,
            budget_tokens=budget_tokens,
        )
    return None, settle_on(
        device,
        shapes_of(body, *more),
        precision=model.precision,
        threads=threads,
        budget_tokens=budget_tokens,
        longest=work.longest,
    )
