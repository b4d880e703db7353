"""What a family reads from a checkpoint: a body, and what a reranker has on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:  # torch takes seconds, and who plans needs none
    from torch import Tensor

    from raypipe.models.packed import Dropout, Linear


class Body(Protocol):
    """Weights of an encoder, fp32, without what a reranker has on top."""

    @property
    def width(self) -> int:
        """Numbers of a hidden state, H."""

    @property
    def num_positions(self) -> int:
        """Rows of the position table."""

    @property
    def num_segments(self) -> int:
        """Segments it tells apart: rows of the segment table, 1 where it has none."""

    @property
    def linears(self) -> Sequence[Linear]:
        """The linear layers, whose products are tried for neighbours."""

    def to(self: B, device: str) -> B:
        """The weights on `cpu` or `cuda`, where products are then of full precision."""

    def with_third_segment(self: B, choice: str | None) -> B:
        """A duo's, with three segment rows; see `segments.with_third_segment`, which raises."""


class Head(Protocol):
    """What a reranker has on top."""

    @property
    def linears(self) -> Sequence[Linear]:
        """As in Body."""

    def to(self: H, device: str) -> H:
        """The weights on `cpu` or `cuda`."""

    def logits(self, first_BH: Tensor, *, drop: Dropout = ...) -> Tensor:
        """Each sequence's units, fp32 [B, U], from the hidden state of its first token."""


B = TypeVar("B", bound=Body)
H = TypeVar("H", bound=Head)
