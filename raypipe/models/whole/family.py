"""`raypipe.models.family.Family` of models that transformers computes, decoders among them.

The states of a decoder, such as Qwen3-Embedding, are pooled as embeddings. Each token sees those
before it, so the last one has read the whole text: the one that the tokenizer puts there. Inputs of
one length need no padding, and so none on the left.

Rerankers of T5's architecture read a prompt and answer with a word (monoT5, duoT5): the encoder
reads the prompt, and the decoder takes one step, whose logits of the answers are the model's units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from raypipe.errors import InputError
from raypipe.models.tensors import Config, Shape, check_units, is_reranker, no_pretraining
from raypipe.models.whole.files import (
    LAST_BIASES,
    T5_KINDS,
    T5Files,
    WholeFiles,
    arguments_of,
    config_of,
    has_head,
    module_of,
    start_of,
    t5_module,
)
from raypipe.text.inputs import Layout
from raypipe.text.tokenize import encoded

if TYPE_CHECKING:  # importing torch takes seconds, and planning does not need it
    from tokenizers import Tokenizer
    from torch import Tensor, nn

    from raypipe.models.packed import Attention, Dropout, Groups, Linear, Updates
    from raypipe.models.tensors import Tensors


TEXT = "a"
"""Any text, to see what a tokenizer puts around it."""


class WholeFamily:
    """An encoder, or a reranker of one, as transformers opens it."""

    packed, predicts_words = False, False

    def __init__(self, files: WholeFiles) -> None:
        """The family of models with these files, all of one model_type."""
        self.files = files

    @property
    def pretraining(self) -> NoReturn:
        """Raises InputError."""
        raise no_pretraining("pre-training", self.files.kind)

    def read(self, weights: Tensors, config: Config, *, updates: Updates | None = None) -> Whole:
        """The module with these weights, a whole reranker if the checkpoint has a head."""
        built = module_of(config, weights, head=has_head(config, weights))
        model_config = config_of(config)
        return Whole(
            built,
            width=int(model_config.hidden_size),
            num_segments=int(model_config.type_vocab_size) if self.files.HAS_SEGMENTS else 1,
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
        **packed: Any,
    ) -> Tensor:
        """Last hidden states, fp32 [T, H]; with `wanted`, a reranker's units in their place."""
        return body.outputs(ids_T, segments, groups, of_head=wanted is not None)

    def head(
        self,
        weights: Tensors,
        config: Config,
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> WholeHead:
        """A head that passes on the units, which the module computes.

        Raises:
            InputError: there is no head, or the number of units contradicts the settings.
        """
        self.check_head({name: tuple(one.shape) for name, one in weights.items()}, relevant_label)
        return WholeHead()

    def check_head(self, shapes: Mapping[str, Shape], relevant_label: int | None) -> None:
        """Returns nothing if there is a head with the units that the settings expect.

        Raises:
            InputError: there is none, or it has other units.
        """
        last = next((name for name in shapes if name.endswith(LAST_BIASES)), None)
        if last is None:
            raise InputError("the checkpoint has no head that scores pairs")
        check_units(shapes[last][0], relevant_label)

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """The layout by the tokens that the tokenizer itself puts around one text and between two.

        Raises:
            InputError: its inputs do not begin and end with one special token.
        """
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
    """Files of a decoder, with which texts are encoded."""

    USED = "encoded with"

    def config_problems(self, config: Config) -> list[str]:
        """Problems of any such model, and a reranker's class, as a decoder scores no pairs here."""
        problems = super().config_problems(config)
        if is_reranker(config):
            names = ", ".join(map(str, config["architectures"]))
            problems.append(f"architectures: found {names}: {ENCODES}")
        return problems


class DecoderFamily(WholeFamily):
    """A decoder that encodes texts, as transformers opens it. It has no rerankers."""

    def __init__(self, kind: str) -> None:
        """The family of models with this model_type, which have one segment."""
        super().__init__(DecoderFiles(kind, has_segments=False))

    def check_head(self, shapes: Mapping[str, Shape], relevant_label: int | None) -> None:
        """Raises InputError."""
        self._refuse()

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """The layout by the tokens that the tokenizer itself puts around one text.

        One of the two may be missing.

        Raises:
            InputError: both are missing, so an empty text would be no input, or there are several
                texts.
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
        """The family of models with this model_type."""
        super().__init__(T5Files(kind))

    def read(self, weights: Tensors, config: Config, *, updates: Updates | None = None) -> T5Body:
        """The module, encoder and decoder, with these weights."""
        named = self.files.canonical_names(weights).found
        held = {place: weights[source.name] for place, source in named.items()}
        return T5Body(
            t5_module(config, held),
            width=int(config["d_model"]),
            num_segments=1,
            start=start_of(config),
        )

    def check_head(self, shapes: Mapping[str, Shape], relevant_label: int | None) -> None:
        """Returns nothing: the body computes the logits of the settings' answers."""

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """Raises InputError: its inputs are prompts, which the settings name."""
        raise InputError(
            f"model_type {self.files.kind}: expected settings with a prompt, found some of another "
            "architecture; name the preset monot5 or duot5"
        )


WITH_SEGMENTS = ("albert", "electra", "ernie", "megatron-bert", "rembert")
WITHOUT_SEGMENTS = ("deberta", "deberta-v2", "eurobert", "modernbert", "mpnet")
KINDS = (*WITH_SEGMENTS, *WITHOUT_SEGMENTS)
"""Encoders that read in both directions, by model_type. A test computes each of them."""
DECODERS = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")
"""Decoders, whose states are pooled as an encoder's; likewise."""
FAMILIES: dict[str, WholeFamily] = {
    **{kind: WholeFamily(WholeFiles(kind, has_segments=kind in WITH_SEGMENTS)) for kind in KINDS},
    **{kind: DecoderFamily(kind) for kind in DECODERS},
    **{kind: T5Family(kind) for kind in T5_KINDS},
}


@dataclass(frozen=True, slots=True)
class Whole:
    """The module, an encoder or a whole reranker."""

    module: nn.Module
    width: int
    num_segments: int
    precision: str = "fp32"

    @property
    def packed(self) -> bool:
        """Whether raypipe computes the model, which transformers does."""
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
        import torch

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
            output = computed(input_ids=ids, **more)
            part: Tensor = output.logits if of_head else output.last_hidden_state.flatten(0, 1)
            return part

        return self.by_length(ids_T, groups, of)

    def by_length(
        self, ids_T: Tensor, groups: Groups, of: Callable[[Tensor, slice], Tensor]
    ) -> Tensor:
        """The results for each length one after another, fp32, with products in the precision.

        `of` computes sequences of one length, int64 [B, L], which are these of the T tokens.
        """
        import torch

        from raypipe.models.machine.precision import DTYPES

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

    pooling: ClassVar[str] = "cls"

    @property
    def linears(self) -> list[Linear]:
        """None: the module has the head's layers."""
        return []

    def to(self, device: str) -> WholeHead:
        """There are no weights here."""
        return self

    def logits(self, pooled_BH: Tensor, *, drop: Dropout = lambda x: x) -> Tensor:
        """The units as they are."""
        return pooled_BH


@dataclass(frozen=True, slots=True)
class T5Body(Whole):
    """The module, encoder and decoder."""

    start: int = field(kw_only=True)
    """The token with which the decoder begins."""

    def answering(self, answers: Sequence[int]) -> T5Body:
        """The same model, which computes the logits of these word pieces alone, in this order."""
        import torch

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
        import torch

        assert of_head  # it has no settings with which it could encode

        def of(ids: Tensor, tokens: slice) -> Tensor:
            output = self.module(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                decoder_input_ids=ids.new_full((len(ids), 1), self.start),
                use_cache=False,
            )
            logits: Tensor = output.logits[:, 0]
            return logits

        return self.by_length(ids_T, groups, of)
