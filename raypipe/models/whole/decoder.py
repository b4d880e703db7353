"""A decoder whose states are pooled as embeddings, such as Qwen3-Embedding.

Each token sees those before it, so the last one has read the whole text: the one that the tokenizer
puts there. Inputs of one length need no padding, and so none on the left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from raypipe.errors import InputError
from raypipe.models.units import is_reranker
from raypipe.models.whole.family import WholeFamily, ends_of
from raypipe.models.whole.files import WholeFiles
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.packed import Updates
    from raypipe.models.whole.body import WholeHead

ENCODES = "a decoder encodes texts here, and scores no pairs; name an encoder or another reranker"


class DecoderFiles(WholeFiles):
    """See WholeFiles."""

    USED = "encoded with"

    def config_problems(self, config: Mapping[str, Any]) -> list[str]:
        """See Files."""
        problems = super().config_problems(config)
        if is_reranker(config):
            names = ", ".join(map(str, config["architectures"]))
            problems.append(f"architectures: found {names}: {ENCODES}")
        return problems


class DecoderFamily(WholeFamily):
    """See WholeFamily; without rerankers."""

    def __init__(self, kind: str) -> None:
        """Of models with this model_type, which have one segment."""
        super().__init__(DecoderFiles(kind, has_segments=False))

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> WholeHead:
        """Raises InputError."""
        self._refuse()

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """See Family; what the tokenizer itself puts around one text, of which one may be missing.

        Raises:
            InputError: both are, so an empty text would be no input; or it is of several texts.
        """
        if len(segments) != 1:
            self._refuse()
        first, last = ends_of(tokenizer)
        if first is None and last is None:
            raise InputError(
                "the tokenizer adds no special token to a text, and an embedding of a decoder is "
                "the state of one that the model was trained with; name it in the post_processor "
                "of tokenizer.json, as in the model's own release"
            )
        return Layout(first, (), last, (0,), has_segments=False)

    def _refuse(self) -> NoReturn:
        raise InputError(f"model_type {self.files.kind}: {ENCODES}")
