"""Model families behind one protocol, and the only list of them.

A family is a folder: how a checkpoint's tensors are named and read, what they compute, what a
reranker has on top, and how texts become inputs. Who encodes, scores and trains knows no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from raypipe.errors import InputError
from raypipe.models.bert import FAMILY as BERT
from raypipe.models.body import B, Head
from raypipe.models.tensors import Named, Shape
from raypipe.text.inputs import Layout

if TYPE_CHECKING:  # torch takes seconds, and who plans needs none
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.packed import Attention, Dropout, Groups, RunLayer, Updates

UNSTATED = "bert"
"""The family where config.json has no model_type, as in Google's bert_config.json."""


class Files(Protocol):
    """A family's files: names and shapes of tensors, and the values of config.json.

    A canonical name is the body's own, or the head's; a saved one has what transformers puts
    before it in a model with a head. A training holds every tensor by its saved name with a head.
    """

    SEGMENTS: str
    """Canonical name of the segment table."""
    POOLER: tuple[str, str]
    """Canonical names of the head's first layer, weight and bias, which an encoder may have too."""
    HEADS: tuple[str, str]
    """Canonical names of the head's last layer, weight [units, H] and bias."""
    ADAPTED: tuple[str, ...]
    """Last parts of the names of linear layers, which peft gives updates."""
    SPECIAL_TOKENS: tuple[str, ...]
    """What a tokenizer must have."""

    def canonical_names(self, names: Iterable[str]) -> Named:
        """Every name of a checkpoint, read by whoever wrote it."""

    def saved_name(self, name: str, *, head: bool) -> str:
        """Canonical or saved name -> the saved one of a model with or without a head."""

    def trained_names(self, names: Iterable[str], *, head: bool) -> dict[str, str]:
        """Name in a checkpoint -> name in a training, in order; others are left out."""

    def linear_names(self, tensors: Mapping[str, Tensor], *, head: bool) -> list[str]:
        """Which of a training's tensors are linear layers that get updates, in order."""

    def expected_shapes(
        self, config: Mapping[str, Any], *, num_labels: int | None
    ) -> dict[str, Shape]:
        """Shape by canonical name of the body, and with `num_labels` of pooler and head."""

    def config_problems(self, config: Mapping[str, Any]) -> list[str]:
        """Why a checkpoint's config.json is not of a model that the forward computes."""

    def own_problems(self, config: Mapping[str, Any]) -> list[str]:
        """As `config_problems`, of a model folder's own, which must name more."""

    def decisive(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a config.json without problems that decide a row, for fingerprints."""

    def contradictions(
        self,
        config: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        *,
        any_segments: bool = ...,
    ) -> list[str]:
        """Where a config.json without problems and the tensors' shapes differ."""

    def converted_config(
        self, config: Mapping[str, Any], *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """What config.json of a converted checkpoint holds."""

    def architecture(self, *, head: bool) -> str:
        """The class of transformers that opens a model with or without a head."""


class Family(Protocol[B]):
    """One architecture. Nothing else in raypipe asks which one it is."""

    @property
    def files(self) -> Files:
        """Tensor names, and config.json."""

    def read(
        self,
        weights: Mapping[str, Tensor],
        config: Mapping[str, Any],
        *,
        updates: Updates | None = ...,
    ) -> B:
        """The body in a checkpoint, by any of its names, with low-rank updates beside its layers.

        Raises:
            InputError: tensors are missing; all are named.
        """

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
    ) -> Tensor:
        """Last hidden states, fp32 [T, H], or with `wanted`, int64 [B], those tokens' [B, H]."""

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = ...,
    ) -> Head:
        """A reranker's head in a checkpoint.

        Raises:
            InputError: tensors are missing, or it has other units than the conventions say.
        """

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """How texts, one a segment of the conventions, become an input.

        Raises:
            InputError: the tokenizer lacks a special.
        """


FAMILIES: Mapping[str, Family[Any]] = {"bert": BERT}
"""By model_type of config.json."""


def family_of(config: Mapping[str, Any]) -> Family[Any]:
    """The family that config.json names.

    Raises:
        InputError: raypipe has no forward of it.
    """
    kind = config.get("model_type", UNSTATED)
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = " or ".join(FAMILIES)
        raise InputError(
            f"model_type: expected {known}, which raypipe has a forward of, found {kind!r}; name "
            "a model of that architecture"
        )
    return FAMILIES[kind]
