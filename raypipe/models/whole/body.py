"""A transformers module as `raypipe.models.family.Body` and `Head`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.machine.precision import DTYPES
from raypipe.models.packed import Dropout, Groups, Linear
from raypipe.models.whole.files import arguments_of

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Whole:
    """The module, an encoder or a whole reranker."""

    module: nn.Module
    width: int
    num_positions: int
    num_segments: int
    precision: str = "fp32"

    @property
    def packed(self) -> bool:
        """See Body."""
        return False

    @property
    def linears(self) -> list[Linear]:
        """None whose products could be tested alone."""
        return []

    def to(self, device: str, precision: str = "fp32") -> Self:
        """The weights on `cpu` or `cuda`, fp32; products are in the precision."""
        return replace(self, module=self.module.to(device), precision=precision)

    def with_third_segment(self, choice: str | None) -> Self:
        """Raises InputError: a duoBERT model is a BERT."""
        raise InputError("a duoBERT model has three segments; name a BERT")

    def outputs(
        self, ids_T: Tensor, segments: int | Tensor, groups: Groups, *, of_head: bool
    ) -> Tensor:
        """Last hidden states, fp32 [T, H]; with `of_head` the head's units, [B, U]."""
        computed: Any = self.module if of_head else self.module.base_model
        given = arguments_of(computed)

        def of(ids: Tensor, tokens: slice) -> Tensor:
            more: dict[str, Any] = {"attention_mask": torch.ones_like(ids)}
            if "use_cache" in given:  # of a decoder: no token is added afterwards
                more["use_cache"] = False
            if "token_type_ids" in given and self.num_segments > 1:
                more["token_type_ids"] = (
                    torch.full_like(ids, segments)
                    if isinstance(segments, int)
                    else segments[tokens].view_as(ids)
                )
            found = computed(input_ids=ids, **more)
            part: Tensor = found.logits if of_head else found.last_hidden_state.flatten(0, 1)
            return part

        return self.by_length(ids_T, groups, of)

    def by_length(
        self, ids_T: Tensor, groups: Groups, of: Callable[[Tensor, slice], Tensor]
    ) -> Tensor:
        """The results for each length one after another, fp32, with products in the precision.

        `of` computes sequences of one length, int64 [B, L], which are these of the T tokens.
        """
        parts, start = [], 0
        low = self.precision in ("bf16", "fp16")
        with torch.autocast(ids_T.device.type, DTYPES[self.precision], enabled=low):
            for count, length in groups:
                tokens = slice(start, start + count * length)
                parts.append(of(ids_T[tokens].view(count, length), tokens).float())
                start = tokens.stop
        return torch.cat(parts)


@dataclass(frozen=True, slots=True)
class WholeHead:
    """Passes on the units: the module has computed them."""

    @property
    def linears(self) -> list[Linear]:
        """See Whole."""
        return []

    def to(self, device: str) -> WholeHead:
        """There are no weights here."""
        return self

    def logits(self, first_BH: Tensor, *, drop: Dropout = lambda x: x) -> Tensor:
        """See Head."""
        return first_BH


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
