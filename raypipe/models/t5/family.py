"""`raypipe.models.family.Family` of T5, which scores and does nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.no_pretraining import NoPretraining
from raypipe.models.t5 import module
from raypipe.models.t5.files import T5Files, start_of
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.packed import Attention, Dropout, Groups, Product, RunLayer, Updates
    from raypipe.models.t5.body import T5Body
    from raypipe.models.whole.body import WholeHead


class T5Family:
    """An encoder and a decoder, as transformers opens them."""

    def __init__(self, kind: str) -> None:
        """Of models with this model_type."""
        self.files = T5Files(kind)
        self.pretraining = NoPretraining(kind)

    def read(
        self,
        weights: Mapping[str, Tensor],
        config: Mapping[str, Any],
        *,
        updates: Updates | None = None,
    ) -> T5Body:
        """See Family."""
        from raypipe.models.t5.body import T5Body

        named = self.files.canonical_names(weights).found
        held = {place: weights[source.name] for place, source in named.items()}
        return T5Body(
            module.module_of(config, held),
            width=int(config["d_model"]),
            num_positions=self.files.num_positions(config),
            start=start_of(config),
        )

    def forward(
        self,
        body: T5Body,
        ids_T: Tensor,
        positions_T: Tensor,
        segments: int | Tensor,
        groups: Groups,
        attend: Attention,
        *,
        wanted: Tensor | None = None,
        drop: Dropout = lambda x: x,
        run_layer: RunLayer = lambda layer, x: layer(x),
        product: Product | None = None,
    ) -> Tensor:
        """The units of each sequence, in the place of its first token's state; see Family."""
        assert wanted is not None  # it has no settings with which it could encode
        return body.units(ids_T, groups)

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> WholeHead:
        """See Family; the module has computed the units."""
        from raypipe.models.whole.body import WholeHead

        return WholeHead()

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """Raises InputError: its inputs are prompts, which the settings name."""
        raise InputError(
            f"model_type {self.files.kind}: expected settings with a prompt, found some of another "
            "architecture; name the preset monot5 or duot5"
        )
