"""The protocol of a model family, and the only list of families.

A family is a folder: how a checkpoint's tensors are named and read into a body and a reranker's
head, what they compute, and how texts become inputs. The code that encodes, scores and trains uses
only this protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from raypipe.errors import InputError
from raypipe.models.bert.family import CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from raypipe.models.bert.family import FAMILY as BERT
from raypipe.models.bert.files import BertFiles as Files
from raypipe.models.bert.files import plain_names as plain_names
from raypipe.models.bert.files import unwrapped as unwrapped
from raypipe.models.modernbert.family import FAMILY as MODERNBERT
from raypipe.models.tensors import Config
from raypipe.text.inputs import Layout

if TYPE_CHECKING:  # importing torch takes seconds, and planning does not need it
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.bert.forward import BertHead, BertPretraining
    from raypipe.models.packed import Attention, Body, Dropout, Groups, Product, RunLayer, Updates
    from raypipe.models.tensors import Tensors


UNSTATED = "bert"
"""The family if config.json has no model_type, as in Google's bert_config.json."""


class Family(Protocol):
    """One architecture. Nothing else in raypipe depends on which one it is."""

    @property
    def files(self) -> Files:
        """Names of tensors, and config.json: `BertFiles`, or what differs from it."""

    @property
    def predicts_words(self) -> bool:
        """Whether it has the heads of pre-training."""

    @property
    def pretraining(self) -> BertPretraining:
        """The heads of pre-training; importing them loads torch.

        Raises:
            InputError: it has none.
        """

    def read(self, weights: Tensors, config: Config, *, updates: Updates | None = ...) -> Body:
        """The body in a checkpoint, under any known names, with low-rank updates of its layers."""

    def forward(
        self,
        body: Any,
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
    ) -> BertHead:
        """A reranker's head in a checkpoint."""

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """How texts, one per segment of the settings, become an input.

        Raises:
            InputError: the tokenizer lacks a special token.
        """


FAMILIES: Mapping[str, Family] = {
    "bert": BERT,
    "camembert": CAMEMBERT,
    "distilbert": DISTILBERT,
    "modernbert": MODERNBERT,
    "roberta": ROBERTA,
    "xlm-roberta": XLM_ROBERTA,
}
"""All families by model_type of config.json."""


def family_of(config: Config) -> Family:
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
