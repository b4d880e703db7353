"""Tensors of a checkpoint by canonical name: what the reader of every family's names gives."""

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a canonical tensor comes from."""

    name: str
    transpose: bool
    """TensorFlow keeps kernels as [in, out]."""


@dataclass(frozen=True, slots=True)
class Named:
    """A checkpoint's tensors by canonical name."""

    found: dict[str, Source]
    unused: list[str]
    """Names that are none of the family's: optimizer slots, other heads, buffers."""
    twice: list[str]
    """`NAME and NAME`: two tensors that claim one place."""
