"""The protocol of a model family, and the only list of families.

A family is a folder: how a checkpoint's tensors are named and read into a body and a reranker's
head, what they compute, and how texts become inputs. The code that encodes, scores and trains uses
only this protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from raypipe.errors import InputError
from raypipe.models.bert.family import CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from raypipe.models.bert.family import FAMILY as BERT
from raypipe.models.bert.files import BertFiles as Files
from raypipe.models.bert.files import plain_names as plain_names
from raypipe.models.bert.files import unwrapped as unwrapped
from raypipe.models.modernbert.family import FAMILY as MODERNBERT
from raypipe.models.tensors import Config, Shape
from raypipe.text.inputs import Layout

if TYPE_CHECKING:  # importing torch takes seconds, and planning does not need it
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.packed import (
        Attention,
        Between,
        Dropout,
        Groups,
        Linear,
        Product,
        RunLayer,
        Updates,
    )
    from raypipe.models.tensors import Tensors


class Body(Protocol):
    """Weights of an encoder, fp32 until they are moved, without a reranker's head."""

    @property
    def width(self) -> int:
        """The hidden size, H."""

    @property
    def num_heads(self) -> int:
        """Attention heads of a layer."""

    @property
    def num_words(self) -> int:
        """Number of rows of the table of word pieces."""

    @property
    def windows(self) -> set[int | None]:
        """The windows of its layers' attention; None if a layer has none."""

    @property
    def linears(self) -> Sequence[Linear]:
        """The linear layers, whose products are tested for effects of neighbouring rows."""

    def to(self: B, device: str, precision: str = ...) -> B:
        """The weights on `cpu` or `cuda`, those of the linear layers in the precision's dtype."""

    def fused(self: B, between: Between) -> B:
        """The body with this work between a layer's products; itself if it has other work there."""


class Head(Protocol):
    """The head of a reranker."""

    @property
    def pooling(self) -> str:
        """Pooling of the states that it reads: cls, the first token's alone, or mean."""

    @property
    def linears(self) -> Sequence[Linear]:
        """As in Body."""

    def to(self: H, device: str) -> H:
        """The weights on `cpu` or `cuda`."""

    def logits(self, pooled_BH: Tensor, *, drop: Dropout = ...) -> Tensor:
        """Each sequence's units, fp32 [B, U], from its pooled hidden states."""


B = TypeVar("B", bound=Body)
H = TypeVar("H", bound=Head)


UNSTATED = "bert"
"""The family if config.json has no model_type, as in Google's bert_config.json."""


class Pretraining(Protocol):
    """The heads with which a family is pre-trained; its tensors have one name everywhere."""

    MASK: str
    """The special token in the place of a masked word piece."""
    FOLLOWS: bool
    """Whether there is a head that predicts whether one text follows another."""
    TIED: Mapping[str, Any]
    """Keys of config.json by which transformers ties the decoder, which has no tensor."""

    def shapes(self, config: Config, *, next_sentence: bool) -> dict[str, Shape]:
        """Shapes of the head that predicts masked words; with `next_sentence` also of pooler and
        classifier. A decoder that is the table of word embeddings has no tensor of its own."""

    def canonical_names(self, names: Iterable[str]) -> dict[str, str]:
        """A checkpoint's names of the heads' tensors, without the pooler, by canonical name."""

    def untied(self, tensors: Tensors) -> list[str]:
        """Tensors of a checkpoint that differ from those to which they are tied."""

    def words(self, weights: Tensors, hidden_MH: Tensor, eps: float) -> Tensor:
        """The logits of masked words, [M, V], from their last hidden states."""

    def word_head(self, weights: Tensors) -> tuple[Linear, Linear, Linear]:
        """The head of `words`: a linear layer, its normalisation, the product with the words."""

    def follows(self, weights: Tensors, first_BH: Tensor) -> Tensor:
        """The logits [B, 2] that B follows A (unit 0) or not, from each first token's state."""

    def architecture(self, *, next_sentence: bool) -> str:
        """The transformers class that opens the model with these heads."""


class Family(Protocol[B]):
    """One architecture. Nothing else in raypipe depends on which one it is."""

    @property
    def files(self) -> Files:
        """Names of tensors, and config.json: `BertFiles`, or what differs from it."""

    @property
    def predicts_words(self) -> bool:
        """Whether it has the heads of pre-training."""

    @property
    def pretraining(self) -> Pretraining:
        """The heads of pre-training; importing them loads torch.

        Raises:
            InputError: it has none.
        """

    def read(self, weights: Tensors, config: Config, *, updates: Updates | None = ...) -> B:
        """The body in a checkpoint, under any known names, with low-rank updates of its layers."""

    def forward(
        self,
        body: B,
        ids_T: Tensor,
        positions_T: Tensor,
        segments: int | Tensor,
        groups: Groups,
        attend: Attention,
        *,
        wanted: Tensor | None = ...,
        drop: Dropout = ...,
        run_layer: RunLayer = ...,
        product: Product = ...,
    ) -> Tensor:
        """Last hidden states, fp32 [T, H]; with `wanted`, int64 [B], only those tokens', [B, H].

        `attend` and `product` compute attention and linear layers, in a way that fits the device.
        """

    def head(
        self,
        weights: Tensors,
        config: Config,
        *,
        updates: Updates | None = ...,
    ) -> Head:
        """A reranker's head in a checkpoint."""

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """How texts, one per segment of the settings, become an input.

        Raises:
            InputError: the tokenizer lacks a special token.
        """


FAMILIES: Mapping[str, Family[Any]] = {
    "bert": BERT,
    "camembert": CAMEMBERT,
    "distilbert": DISTILBERT,
    "modernbert": MODERNBERT,
    "roberta": ROBERTA,
    "xlm-roberta": XLM_ROBERTA,
}
"""All families by model_type of config.json."""


def family_of(config: Config) -> Family[Any]:
    """The family that config.json names.

    Raises:
        InputError: raypipe cannot compute that family.
    """
    kind = config.get("model_type", UNSTATED)
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = " or ".join([", ".join([*FAMILIES][:-1]), [*FAMILIES][-1]])
        raise InputError(
            f"model_type: expected {known}, which raypipe can compute, found {kind!r}; name "
            "a model of that architecture"
        )
    return FAMILIES[kind]


def unpacked(config: Config) -> list[str]:
    """Why raypipe does not compute a variant of a family that it computes; empty if it does."""
    return MODERNBERT.files.unpacked(config) if config.get("model_type") == "modernbert" else []
