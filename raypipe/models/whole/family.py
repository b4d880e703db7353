"""`raypipe.models.family.Family` of models that transformers computes, decoders among them.

The states of a decoder, such as Qwen3-Embedding, are pooled as embeddings. Each token sees those
before it, so the last one has read the whole text: the one that the tokenizer puts there. Inputs of
one length need no padding, and so none on the left.

Rerankers of T5's architecture read a prompt and answer with a word (monoT5, duoT5): the encoder
reads the prompt, and the decoder takes one step, whose logits of the answers are the model's units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from raypipe.errors import InputError
from raypipe.models.no_pretraining import NoPretraining
from raypipe.models.units import check_units, is_reranker
from raypipe.models.whole.files import LAST_BIASES, WholeFiles, config_of, has_head, module_of
from raypipe.models.whole.t5 import KINDS as T5_KINDS
from raypipe.models.whole.t5 import T5Files, start_of
from raypipe.models.whole.t5 import module_of as t5_module_of
from raypipe.text.inputs import Layout
from raypipe.text.tokenize import encoded

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.packed import Attention, Dropout, Groups, Product, RunLayer, Updates
    from raypipe.models.whole.body import T5Body, Whole, WholeHead


TEXT = "a"
"""Any text, to see what a tokenizer puts around it."""


class WholeFamily:
    """An encoder, or a reranker of one, as transformers opens it."""

    packed = False

    def __init__(self, files: WholeFiles) -> None:
        """Of models with these files, all of one model_type."""
        self.files = files
        self.pretraining = NoPretraining(files.kind)

    def read(
        self,
        weights: Mapping[str, Tensor],
        config: Mapping[str, Any],
        *,
        updates: Updates | None = None,
    ) -> Whole:
        """See Family."""
        from raypipe.models.whole.body import Whole

        built = module_of(config, weights, head=has_head(config, weights))
        found = config_of(config)
        return Whole(
            built,
            width=int(found.hidden_size),
            num_positions=self.files.num_positions(config),
            num_segments=int(found.type_vocab_size) if self.files.HAS_SEGMENTS else 1,
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
        product: Product | None = None,
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

        last = next((name for name in weights if name.endswith(LAST_BIASES)), None)
        if last is None:
            raise InputError("the checkpoint has no head that scores pairs")
        check_units(len(weights[last]), relevant_label)
        return WholeHead()

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """See Family; what the tokenizer itself puts around one text and between two."""
        plain = encoded(tokenizer, [TEXT])[0].ids
        both = encoded(tokenizer, [(TEXT, TEXT)], specials=True)[0].ids
        first, last = ends_of(tokenizer)
        size = len(plain)
        between = tuple(both[1 + size : len(both) - size - 1])
        expected = [first, *plain, *between, *plain, last]
        if first is None or last is None or both != expected or not between:
            raise InputError(
                "the tokenizer's own inputs do not begin with one special token and end with one"
            )
        read = self.files.HAS_SEGMENTS
        own = tuple(segments) if read else (0,) * len(segments)
        return Layout(first, between, last, own, has_segments=read)


def ends_of(tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """The tokens that the tokenizer itself puts before and after one text; None for none.

    Raises:
        InputError: there are several on a side.
    """
    plain = encoded(tokenizer, [TEXT])[0].ids
    whole = encoded(tokenizer, [TEXT], specials=True)[0].ids
    for num_before in (0, 1):
        num_after = len(whole) - num_before - len(plain)
        if num_after in (0, 1) and whole[num_before : num_before + len(plain)] == plain:
            return whole[0] if num_before else None, whole[-1] if num_after else None
    raise InputError(
        "the tokenizer's own inputs have more than one special token before or after a text"
    )


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
        from raypipe.models.whole.body import T5Body

        named = self.files.canonical_names(weights).found
        held = {place: weights[source.name] for place, source in named.items()}
        return T5Body(
            t5_module_of(config, held),
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


WITH_SEGMENTS = ("albert", "electra", "ernie", "megatron-bert", "rembert")
WITHOUT_SEGMENTS = ("deberta", "deberta-v2", "eurobert", "modernbert", "mpnet")
KINDS = (*WITH_SEGMENTS, *WITHOUT_SEGMENTS)
"""By model_type: encoders that read in both directions. A test computes each of them."""
DECODERS = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")
"""Decoders, whose states are pooled as an encoder's; likewise."""
FAMILIES: dict[str, WholeFamily] = {
    **{kind: WholeFamily(WholeFiles(kind, has_segments=kind in WITH_SEGMENTS)) for kind in KINDS},
    **{kind: DecoderFamily(kind) for kind in DECODERS},
    **{kind: T5Family(kind) for kind in T5_KINDS},
}
