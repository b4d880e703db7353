"""`raypipe.models.family.Family` of T5, which scores and does nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.t5.files import KINDS, T5Files, module_of, start_of
from raypipe.models.whole.family import WholeFamily
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.packed import Updates
    from raypipe.models.t5.body import T5Body
    from raypipe.models.whole.body import WholeHead


class T5Family(WholeFamily):
    """An encoder and a decoder, as transformers opens them."""

    def __init__(self, kind: str) -> None:
        """Of models with this model_type."""
        super().__init__(T5Files(kind))

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
            module_of(config, held),
            width=int(config["d_model"]),
            num_positions=self.files.num_positions(config),
            num_segments=1,
            start=start_of(config),
        )

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> WholeHead:
        """See Family; the units are those of the settings' answers, which the body computes."""
        from raypipe.models.whole.body import WholeHead

        return WholeHead()

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """Raises InputError: its inputs are prompts, which the settings name."""
        raise InputError(
            f"model_type {self.files.kind}: expected settings with a prompt, found some of another "
            "architecture; name the preset monot5 or duot5"
        )


FAMILIES = {kind: T5Family(kind) for kind in KINDS}
