"""Opens a model for passes of fixed shape: attention, sizes that fit, and what they promise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch

from raypipe.models.family import Body, Family, PackedBody
from raypipe.models.fixed.attention import Varlen, found_varlen
from raypipe.models.fixed.engine import RESIDENT_BYTES, FixedEngine
from raypipe.models.fixed.plan import FixedShape
from raypipe.models.fixed.proof import rows_keep_their_bytes
from raypipe.models.fixed.replay import in_mode
from raypipe.models.fixed.step import Finish, step_of
from raypipe.models.machine.device import MOST_TOKENS, numerics_class, tokens_of_pass
from raypipe.models.machine.placing import Place
from raypipe.models.machine.precision import DTYPES, set_products
from raypipe.text.inputs import Layout

FinishOf = Callable[[FixedShape], Finish]


@dataclass(frozen=True, slots=True)
class FixedSettings:
    """How passes of fixed shape are computed."""

    mode: str = "eager"
    """See `replay.MODES`."""
    varlen: Varlen | None = None
    """Attention for sequences of any length; None means PyTorch's kernel, if the device has it."""
    resident_bytes: int = RESIDENT_BYTES
    """Word pieces up to this size lie on the device as a whole."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a model computes of an input."""

    layout: Layout
    longest: int
    """The largest number of tokens of an input."""
    finish: FinishOf
    """Makes the results of a pass of this shape."""
    firsts: bool
    """Whether it wants only the first token of each input."""


def open_fixed(
    family: Family[Any],
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
        InputError: a mode that this device cannot use.
        torch.OutOfMemoryError: not even the longest input fits.
    """
    assert body.packed
    packed = cast(PackedBody, body)
    set_products(precision)
    asked = min(budget_tokens or tokens_of_pass(device), MOST_TOKENS[device])
    tokens = max(asked, work.longest, 16)
    varlen = settings.varlen or found_varlen(
        device, DTYPES[precision], packed.width // packed.num_heads
    )

    def build(tokens: int) -> FixedEngine:
        shape = FixedShape(tokens, work.longest, len(work.layout.segments))
        step = step_of(family, body, shape, varlen, work.finish(shape), firsts=work.firsts)
        return FixedEngine(
            in_mode(step, settings.mode, groupless=varlen is not None, device=device),
            shape,
            device=device,
            precision=precision,
            by_groups=varlen is None,
            resident_bytes=settings.resident_bytes,
        )

    while True:
        try:
            engine = build(tokens)
            proven = rows_keep_their_bytes(engine, work.layout, packed.num_words)
            break
        except torch.OutOfMemoryError:
            if tokens <= max(work.longest, 16):
                raise
        torch.cuda.empty_cache()  # here the traceback, which holds the tensors, is gone
        tokens = max(tokens // 2, work.longest, 16)
    how = f"{settings.mode} passes of {tokens} tokens, attention " + (
        "by length" if varlen is None else "of any length"
    )
    numerics = numerics_class(device, precision=precision, proven=proven, how=how)
    return engine, Place(device, tokens, numerics, precision)
