"""A T5 as `raypipe.models.family.Body`: its units are the logits of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from raypipe.models.packed import Groups
from raypipe.models.whole.body import Whole


@dataclass(frozen=True, slots=True)
class T5Body(Whole):
    """The module, encoder and decoder."""

    start: int = field(kw_only=True)
    """The token with which the decoder begins."""

    def answering(self, answers: Sequence[int]) -> T5Body:
        """The same model, which computes the logits of these word pieces alone, in this order."""
        head = self.module.get_submodule("lm_head")
        rows = head.get_parameter("weight")[list(answers)].detach().clone()
        few = torch.nn.Linear(rows.shape[1], rows.shape[0], bias=False, device="meta")
        few.weight = torch.nn.Parameter(rows)
        self.module.set_submodule("lm_head", few)
        return self

    def outputs(
        self, ids_T: Tensor, segments: int | Tensor, groups: Groups, *, of_head: bool
    ) -> Tensor:
        """The logits after one step of the decoder, fp32 [B, U], from prompts one after another."""
        assert of_head  # it has no settings with which it could encode

        def of(ids: Tensor, tokens: slice) -> Tensor:
            found = self.module(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                decoder_input_ids=ids.new_full((len(ids), 1), self.start),
                use_cache=False,
            )
            logits: Tensor = found.logits[:, 0]
            return logits

        return self.by_length(ids_T, groups, of)
