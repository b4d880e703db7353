"""`raypipe.models.family.Pretraining` of a family that raypipe does not pre-train."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from raypipe.errors import InputError
from raypipe.models.tensors import Named, Shape

if TYPE_CHECKING:
    from torch import Tensor


class NoPretraining:
    """No tensor of a checkpoint is one of these heads; asking for them raises InputError."""

    MASK = "<mask>"

    def __init__(self, kind: str) -> None:
        """Of the family with this model_type."""
        self._kind = kind

    def shapes(self, config: Mapping[str, Any], *, next_sentence: bool) -> dict[str, Shape]:
        """Raises InputError."""
        self._refuse()

    def canonical_names(self, names: Iterable[str]) -> Named:
        """None of them is found."""
        return Named({}, sorted(names), [])

    def untied(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """There are none."""
        return []

    def words(self, weights: Mapping[str, Tensor], hidden_MH: Tensor, eps: float) -> Tensor:
        """Raises InputError."""
        self._refuse()

    def follows(self, weights: Mapping[str, Tensor], first_BH: Tensor) -> Tensor:
        """Raises InputError."""
        self._refuse()

    def architecture(self, *, next_sentence: bool) -> str:
        """Raises InputError."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"pre-training: expected a model_type bert, found {self._kind}; start from a BERT"
        )
