"""What a family reads from a checkpoint: a body, and a reranker's head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:  # importing torch takes seconds, and planning does not need it
    from torch import Tensor

    from raypipe.models.packed import Dropout, Linear


class Body(Protocol):
    """Weights of an encoder, fp32 until they are moved, without a reranker's head."""

    @property
    def width(self) -> int:
        """The hidden size, H."""

    @property
    def num_positions(self) -> int:
        """Number of rows of the position table."""

    @property
    def num_segments(self) -> int:
        """Number of segments: rows of the segment table, 1 if it has none."""

    @property
    def packed(self) -> bool:
        """Whether raypipe computes it, so that a row depends on others by its products alone."""

    @property
    def linears(self) -> Sequence[Linear]:
        """The linear layers, whose products are tested for effects of neighbouring rows."""

    def to(self: B, device: str, precision: str = ...) -> B:
        """The weights on `cpu` or `cuda`, those of the linear layers in the precision's dtype."""

    def with_third_segment(self: B, choice: str | None) -> B:
        """The body with three segment rows, for a duoBERT model; see `segments`, which raises."""


class Head(Protocol):
    """The head of a reranker."""

    @property
    def linears(self) -> Sequence[Linear]:
        """As in Body."""

    def to(self: H, device: str) -> H:
        """The weights on `cpu` or `cuda`."""

    def logits(self, first_BH: Tensor, *, drop: Dropout = ...) -> Tensor:
        """Each sequence's units, fp32 [B, U], from the hidden state of its first token."""


B = TypeVar("B", bound=Body)
H = TypeVar("H", bound=Head)
