"""A T5 as `raypipe.models.body.Body`: its units are the logits of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.machine.precision import DTYPES
from raypipe.models.packed import Groups, Linear

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class T5Body:
    """The module, encoder and decoder."""

    module: nn.Module
    width: int
    num_positions: int
    start: int
    """The token with which the decoder begins."""
    num_segments: int = 1
    precision: str = "fp32"

    @property
    def packed(self) -> bool:
        """See Body."""
        return False

    @property
    def linears(self) -> list[Linear]:
        """None whose products could be tested alone."""
        return []

    def to(self, device: str, precision: str = "fp32") -> T5Body:
        """The weights on `cpu` or `cuda`, fp32; products are in the precision."""
        return replace(self, module=self.module.to(device), precision=precision)

    def with_third_segment(self, choice: str | None) -> T5Body:
        """Raises InputError: a prompt has no segments."""
        raise InputError("segment_row: a model that reads a prompt has no segments; remove it")

    def answering(self, answers: Sequence[int]) -> T5Body:
        """The same model, which computes the logits of these word pieces alone, in this order."""
        head = self.module.get_submodule("lm_head")
        rows = head.get_parameter("weight")[list(answers)].detach().clone()
        few = torch.nn.Linear(rows.shape[1], rows.shape[0], bias=False, device="meta")
        few.weight = torch.nn.Parameter(rows)
        self.module.set_submodule("lm_head", few)
        return self

    def units(self, ids_T: Tensor, groups: Groups) -> Tensor:
        """The logits after one step of the decoder, fp32 [B, U], from prompts one after another."""
        parts, begin = [], 0
        low = self.precision in ("bf16", "fp16")
        with torch.autocast(ids_T.device.type, DTYPES[self.precision], enabled=low):
            for count, length in groups:
                end = begin + count * length
                ids = ids_T[begin:end].view(count, length)
                found = self.module(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    decoder_input_ids=ids.new_full((count, 1), self.start),
                    use_cache=False,
                )
                parts.append(found.logits[:, 0].float())
                begin = end
        return torch.cat(parts)
