"""`raypipe.models.family.Family` for BERT's layers under other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.bert import FAMILY as BERT
from raypipe.models.bert.files import SEGMENTS, expected_shapes
from raypipe.models.no_pretraining import NoPretraining
from raypipe.models.renamed.files import RenamedFiles
from raypipe.models.renamed.names import Names
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.bert.forward import Bert, Head
    from raypipe.models.packed import Updates

UNITS = 1
"""Any number: names of tensors do not depend on it."""


class RenamedFamily:
    """BERT's code on tensors that are given BERT's names."""

    packed = True

    def __init__(
        self, names: Names, *, activation: Callable[[], Callable[[Tensor], Tensor]]
    ) -> None:
        """`activation` returns what a head computes between its layers; it may import torch."""
        self.files = RenamedFiles(names)
        self.pretraining = NoPretraining(names.kind)
        self._names, self._activation = names, activation

    def read(
        self,
        weights: Mapping[str, Tensor],
        config: Mapping[str, Any],
        *,
        updates: Updates | None = None,
    ) -> Bert:
        """See Family."""
        import torch

        like = self._names.as_bert(config)
        places = expected_shapes(like, num_labels=None)
        held = self._as_bert(weights, places)
        if not self._names.has_segments:
            held[SEGMENTS] = torch.zeros(1, like["hidden_size"])
        missing = [self._names.own(name) for name in places if name not in held]
        if missing:
            raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
        return BERT.read(held, like, updates=self._updates(updates, places))

    def forward(self, body: Bert, *tokens: Any, **settings: Any) -> Tensor:
        """See Family."""
        return BERT.forward(body, *tokens, **settings)

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> Head:
        """See Family."""
        pooler, head = BERT.files.POOLER, BERT.files.HEADS
        held = self._as_bert(weights, (*pooler, *head))
        missing = [self._names.own(name) for name in (*pooler, *head) if name not in held]
        if missing:
            raise InputError(
                [
                    f"the checkpoint lacks the tensor {name}: it has no head that scores pairs"
                    for name in missing
                ]
            )
        own = self._updates(updates, pooler)
        found = BERT.head(held, relevant_label=relevant_label, updates=own)
        return replace(found, activation=self._activation())

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """See Family; every segment is 0."""
        first, last, _ = self._names.specials
        first_id, last_id = (tokenizer.token_to_id(token) for token in (first, last))
        if first_id is None or last_id is None:
            raise InputError(f"the tokenizer has no {first} or no {last}")
        between = (last_id,) * self._names.num_separators
        zeros = (0,) * len(segments)
        place = self._names.first_position
        return Layout(first_id, between, last_id, zeros, place, has_segments=False)

    def _as_bert(self, weights: Mapping[str, Tensor], names: Any) -> dict[str, Tensor]:
        """The tensors by these canonical names of BERT's, without those that are missing."""
        places = {name: self._saved(name, weights) for name in names}
        return {name: weights[saved] for name, saved in places.items() if saved is not None}

    def _saved(self, name: str, held: Mapping[str, Any]) -> str | None:
        """The name, among those held, for one of BERT's canonical names; None if there is none."""
        own = self._names.own(name)
        return next((saved for saved in (own, self._names.prefix + own) if saved in held), None)

    def _updates(self, updates: Updates | None, names: Any) -> Updates | None:
        """The updates by BERT's names of their layers, without a prefix."""
        if updates is None:
            return None
        layers = [name.removesuffix("weight") for name in names if name.endswith(".weight")]
        held = {f"{name}.": update for name, update in updates.items()}
        places = {layer: self._saved(layer, held) for layer in layers}
        return {layer[:-1]: held[at] for layer, at in places.items() if at is not None}
