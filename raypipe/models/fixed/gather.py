"""Makes a batch's inputs on the device, from word pieces that lie there and a plan.

The same inputs as `text.inputs.make_inputs` makes on the host, and filler behind them. Every size
is known beforehand, so nothing waits for the device.

Shapes: T tokens of the pass, R inputs at most, E edges; see `plan`.
"""

from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.fixed.plan import FixedShape, Int64, parts_of
from raypipe.text.inputs import Flat, Layout, TextSlice


class Gathered(NamedTuple):
    """The inputs of a pass."""

    ids: Tensor
    """Token ids, int64 [T]."""
    positions: Tensor
    """Positions within a sequence, int64 [T]; filler has the first."""
    segments: Tensor
    """Segment ids, int64 [T]; filler has that of the first text."""
    edges: Tensor
    """Where sequences begin and end, int64 [E]."""


def on_device(flat: Flat, device: str) -> Tensor:
    """Word pieces on a device, int16 or int32 with the same bits, at least one.

    Few kernels know uint16; `gathered` reads the bits as they were meant.
    """
    signed: NDArray[np.int16 | np.int32] = np.ascontiguousarray(flat).view(
        np.int16 if flat.dtype == np.uint16 else np.int32
    )
    if not len(signed):
        signed = np.zeros(1, signed.dtype)
    if not signed.flags.writeable:  # torch warns of a mapped file, which it could write to
        signed = signed.copy()
    return torch.from_numpy(signed).to(device)


def compact(texts: list[TextSlice]) -> list[TextSlice]:
    """The texts of one batch with their own pieces alone, for collections too large for a device.

    Every text has the same `flat`: the pieces of the first texts, then of the second ones, and so
    on.
    """
    flats, found, before = [], [], 0
    for text in texts:
        ends = np.cumsum(text.counts)
        starts = ends - text.counts
        total = int(ends[-1])
        flats.append(text.flat[np.arange(total) + np.repeat(text.starts - starts, text.counts)])
        found.append((starts + before, text.counts))
        before += total
    flat = np.concatenate(flats)
    return [TextSlice(flat, starts, counts) for starts, counts in found]


def gathered(flats: list[Tensor], plan: Tensor, layout: Layout, shape: FixedShape) -> Gathered:
    """The inputs of the batch of a plan.

    Args:
        flats: from `on_device`, for each text of an input.
        plan: of `write_plan`, on the device.
        layout: special tokens, segments and positions.
        shape: the sizes.
    """
    starts, counts, edges = cast(tuple[Tensor, Tensor, Tensor], parts_of(cast(Int64, plan), shape))
    token = torch.arange(shape.tokens, device=plan.device)
    row = torch.searchsorted(edges[1 : shape.rows + 1], token, right=True)
    row.clamp_(max=shape.rows - 1)
    filler = token >= edges[shape.rows]
    offset = (token - edges[row]).masked_fill_(filler, 0)
    closing = layout.last or 0  # any piece serves as filler
    ids = torch.full_like(token, closing)
    segments = torch.full_like(token, layout.segments[0])
    at = torch.zeros_like(token)
    for special in layout.before:
        ids.masked_fill_(offset == at, special)
        at = at + 1
    for number, flat in enumerate(flats):
        count = counts[number][row]
        inside = (offset >= at) & (offset < at + count)
        source = (starts[number][row] + offset - at).clamp_(0, len(flat) - 1)
        ids = torch.where(inside, _unsigned(flat[source]), ids)
        at = at + count
        if number + 1 < len(flats):
            for special in layout.separators:
                ids.masked_fill_(offset == at, special)
                at = at + 1
            segments.masked_fill_(offset >= at, layout.segments[number + 1])
    ids.masked_fill_(filler, closing)
    segments.masked_fill_(filler, layout.segments[0])
    return Gathered(ids, offset + layout.first_position, segments, edges)


def _unsigned(pieces: Tensor) -> Tensor:
    """The ids that the bits of int16 or int32 were meant as, int64."""
    bits = 0xFFFF if pieces.dtype == torch.int16 else 0xFFFFFFFF
    return pieces.long() & bits
