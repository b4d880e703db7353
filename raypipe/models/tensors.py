"""Tensors of a checkpoint by canonical name, and how they differ from what config.json says."""

from collections.abc import Mapping
from dataclasses import dataclass

Shape = tuple[int, ...]
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
"""The endings of files of tensors that can run code."""


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


def shape_problems(
    expected: Mapping[str, Shape], held: Mapping[str, tuple[str, Shape]]
) -> list[str]:
    """One problem for each tensor that a checkpoint lacks or has in another shape.

    Args:
        expected: shapes that config.json implies.
        held: the checkpoint's (name, shape) under the same names.
    """
    lacking = [
        f"the checkpoint lacks the tensor {name}, which config.json says it has"
        for name in expected
        if name not in held
    ]
    return lacking + [
        f"{held[name][0]}: config.json says {list(shape)}, the checkpoint has {list(held[name][1])}"
        for name, shape in expected.items()
        if name in held and held[name][1] != shape
    ]
