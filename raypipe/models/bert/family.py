"""BERT as a model family; see `raypipe.models.family.Family`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.bert import files
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.bert.forward import Bert, BertPretraining, Head
    from raypipe.models.packed import Updates


class BertFamily:
    """One object for all models; torch is imported only to read weights."""

    files = files
    packed = True

    @property
    def pretraining(self) -> BertPretraining:
        """See Family."""
        from raypipe.models.bert.forward import PRETRAINING

        return PRETRAINING

    def read(
        self,
        weights: Mapping[str, Tensor],
        config: Mapping[str, Any],
        *,
        updates: Updates | None = None,
    ) -> Bert:
        """See Family."""
        from raypipe.models.bert.forward import read_bert

        return read_bert(weights, config, updates=updates)

    def forward(self, body: Bert, *tokens: Any, **settings: Any) -> Tensor:
        """See Family."""
        from raypipe.models.bert.forward import hidden_states

        return hidden_states(body, *tokens, **settings)

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> Head:
        """See Family."""
        from raypipe.models.bert.forward import read_head

        return read_head(weights, relevant_label=relevant_label, updates=updates)

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """[CLS] text [SEP], and another [SEP] after each further text."""
        cls_id, sep_id = (tokenizer.token_to_id(token) for token in (files.CLS, files.SEP))
        if cls_id is None or sep_id is None:
            raise InputError(f"the tokenizer has no {files.CLS} or no {files.SEP}")
        return Layout(cls_id, (sep_id,), sep_id, tuple(segments))


FAMILY = BertFamily()
