"""Tensors of a checkpoint by canonical name: the result of every family's `canonical_names`."""

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a canonical tensor."""

    name: str
    transpose: bool
    """Whether to transpose it: TensorFlow keeps kernels as [in, out]."""


@dataclass(frozen=True, slots=True)
class Named:
    """A checkpoint's tensors by canonical name."""

    found: dict[str, Source]
    unused: list[str]
    """Names that are not the family's: optimizer slots, other heads, buffers."""
    twice: list[str]
    """`NAME and NAME`: two tensors with the same canonical name."""
