"""`raypipe.models.family.Family` of a model that transformers computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.renamed.pretraining import NoPretraining
from raypipe.models.whole import module
from raypipe.models.whole.files import WholeFiles
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.packed import Attention, Dropout, Groups, RunLayer, Updates
    from raypipe.models.whole.body import Whole, WholeHead

TEXT = "a"
"""Any text, to see what a tokenizer puts around it."""


class WholeFamily:
    """An encoder, or a reranker of one, as transformers opens it."""

    def __init__(self, kind: str, *, has_segments: bool) -> None:
        """Of models with this model_type, which read segments or not."""
        self.files = WholeFiles(kind, has_segments=has_segments)
        self.pretraining = NoPretraining(kind)

    def read(
        self,
        weights: Mapping[str, Tensor],
        config: Mapping[str, Any],
        *,
        updates: Updates | None = None,
    ) -> Whole:
        """See Family."""
        from raypipe.models.whole.body import Whole

        built = module.module_of(config, weights, head=module.is_reranker(config))
        found = module.config_of(config)
        return Whole(
            built,
            width=int(found.hidden_size),
            num_positions=self.files.num_positions(config),
            num_segments=int(found.type_vocab_size) if self.files.has_segments else 1,
        )

    def forward(
        self,
        body: Whole,
        ids_T: Tensor,
        positions_T: Tensor,
        segments: int | Tensor,
        groups: Groups,
        attend: Attention,
        *,
        wanted: Tensor | None = None,
        drop: Dropout = lambda x: x,
        run_layer: RunLayer = lambda layer, x: layer(x),
    ) -> Tensor:
        """See Family; with `wanted`, the first tokens', a reranker's units in their place."""
        return body.outputs(ids_T, segments, groups, of_head=wanted is not None)

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> WholeHead:
        """See Family."""
        from raypipe.models.whole.body import WholeHead

        units = {len(weights[name]) for name in weights if name.endswith(LAST_BIASES)}
        expected = 1 if relevant_label is None else 2
        if not units:
            raise InputError("the checkpoint has no head that scores pairs")
        if units != {expected}:
            label = "null" if relevant_label is None else str(relevant_label)
            raise InputError(
                f"the classifier has {max(units)} units, the settings (relevant_label: {label}) "
                f"expect {expected}; a head of one unit has relevant_label null, one of two 0 or 1"
            )
        return WholeHead(expected)

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """See Family; what the tokenizer itself puts around one text and between two."""
        plain = tokenizer.encode(TEXT, add_special_tokens=False).ids
        alone, both = tokenizer.encode(TEXT).ids, tokenizer.encode(TEXT, TEXT).ids
        size = len(plain)
        between = tuple(both[1 + size : len(both) - size - 1])
        expected = [alone[0], *plain, *between, *plain, alone[-1]]
        if alone != [alone[0], *plain, alone[-1]] or both != expected or not between:
            raise InputError(
                "the tokenizer's own inputs do not begin with one special token and end with one"
            )
        has_segments = self.files.has_segments
        own = tuple(segments) if has_segments else (0,) * len(segments)
        return Layout(alone[0], between, alone[-1], own, has_segments=has_segments)


LAST_BIASES = ("classifier.bias", "classifier.out_proj.bias")
"""Ends of the name of a head's last bias in transformers' classes."""
