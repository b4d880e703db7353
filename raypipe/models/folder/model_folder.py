"""A model folder as a value: where it lies, its hashes, its conventions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.hub_names import SCHEME
from raypipe.models.family import Family, family_of
from raypipe.models.folder.conventions import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.folder.evidence import read_object
from raypipe.models.folder.layers import NORMALISE, DenseFile
from raypipe.models.folder.presets import PRESETS

PACKAGED = "minilm"
"""The model that comes with raypipe's dependencies."""
RANDOM = "random weights"
"""In the place of the hash of weights that are drawn from a configuration."""
USUAL_PIECES = 512
"""Word pieces of a text that are kept for every model, so that models share a tokenizer's store."""
PRETRAINED = "is to start a training from: name it in model.start of a training recipe"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model on disk; equal hashes mean equal models."""

    path: str
    """The name given by the user: a folder, or `minilm`."""
    folder: Path
    conventions: AnyConventions
    weights_sha256: str
    tokenizer_sha256: str
    """Hash of the tokenizer as built; see `raypipe.models.tokenizer`."""
    config_read: Mapping[str, Any]
    """config.json as read by the driver; workers use this and do not read the file."""
    adapter: Path | None = None
    """A low-rank adapter for the folder's weights, merged on loading."""
    hub: str | None = None
    """hf://OWNER/NAME@COMMIT if the folder is a hub's: each node opens its own snapshot of it."""
    adapter_hub: str | None = None
    """The same of the adapter."""
    dense: tuple[DenseFile | None, ...] = ()
    """What follows an encoder's pooling, in order: layers, and None for a division by length."""

    def __post_init__(self) -> None:
        """Refuses settings with a precision in which the model is not computed.

        Raises:
            InputError: int8 of an encoder, or of a model that transformers computes.
        """
        if self.precision == "int8" and not self._takes_int8():
            kind = "a reranker" if isinstance(self.conventions, PairConventions) else "an encoder"
            raise InputError(
                f"{self.path}: precision: int8: expected a reranker that raypipe computes itself "
                f"(BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT), found {kind} with "
                f"model_type {self.config_read.get('model_type')!r}; set it to fp32, bf16 or fp16"
            )

    def _takes_int8(self) -> bool:
        """Vectors change too much in int8 (docs/benchmarks.md)."""
        return isinstance(self.conventions, PairConventions) and self.family.packed

    def config(self) -> dict[str, Any]:
        """config.json."""
        return dict(self.config_read)

    @property
    def of_hub(self) -> str | None:
        """OWNER/NAME@COMMIT of a hub's model; None of any other."""
        return None if self.hub is None else self.hub.removeprefix(SCHEME)

    @property
    def family(self) -> Family[Any]:
        """The family that config.json names.

        Raises:
            InputError: it is unknown, which `resolve_model` has already excluded.
        """
        return family_of(self.config_read)

    def forward_config(self) -> dict[str, Any]:
        """The values of config.json that affect a row's value, by name; part of the fingerprint.

        With them are an encoder's dense layers, if it has any.
        """
        found = self.family.files.decisive(self.config_read)
        steps = [NORMALISE if layer is None else layer.to_json() for layer in self.dense]
        return {**found, "dense": steps} if steps else found

    @property
    def dim(self) -> int:
        """Dimensions of an encoder's embeddings."""
        if self.encoder.truncate_dim is not None:
            return self.encoder.truncate_dim
        layers = [layer for layer in self.dense if layer is not None]
        if layers:
            return layers[-1].outer
        return int(self.family.files.as_bert(self.config_read)["hidden_size"])

    @property
    def max_pieces(self) -> int:
        """How many word pieces of a text are kept: as many as its inputs hold, or more."""
        own = self.conventions
        if isinstance(own, Conventions):
            return max(USUAL_PIECES, own.query_limit, own.passage_limit)
        return max(USUAL_PIECES, own.total_limit)

    @property
    def precision(self) -> str:
        """Of the products: its settings', or else fp32."""
        own = self.conventions
        stated = None if isinstance(own, PretrainedConventions) else own.precision
        return stated or "fp32"

    def in_precision(self, precision: str) -> "ModelFolder":
        """The model computed in this precision, unless its own settings fix another.

        A model that does not compute in int8 takes what follows it, as in `int8+bf16`, or fp32.
        """
        own = self.conventions
        if precision.startswith("int8"):
            rest = precision.partition("+")[2] or "fp32"
            precision = "int8" if self._takes_int8() else rest
        if isinstance(own, PretrainedConventions) or own.precision is not None:
            return self
        return replace(self, conventions=replace(own, precision=precision))

    @property
    def encoder(self) -> Conventions:
        """The settings of an encoder.

        Raises:
            InputError: the model is not an encoder.
        """
        if not isinstance(self.conventions, Conventions):
            does = (
                "scores pairs and makes no embeddings"
                if isinstance(self.conventions, PairConventions)
                else PRETRAINED
            )
            kind = self.conventions.kind
            raise InputError(f"{self.path}: expected an encoder, found kind {kind}, which {does}")
        return self.conventions

    @property
    def reranker(self) -> PairConventions:
        """The settings of a reranker.

        Raises:
            InputError: the model is an encoder.
        """
        if not isinstance(self.conventions, PairConventions):
            if isinstance(self.conventions, Conventions):
                found = "an encoder, which has no head that scores; name a reranker, or search"
                found += " with this one"
            else:
                found = f"kind {self.conventions.kind}, which {PRETRAINED}"
            raise InputError(f"{self.path}: expected a monoBERT or duoBERT model, found {found}")
        return self.conventions


def measurements(model: ModelFolder) -> str | None:
    """Where a reranker was measured and what it gained, if its raypipe.json says so."""
    folder = model.folder if model.adapter is None else model.adapter
    path = folder / "raypipe.json"
    made_by = read_object(path).get("made_by") if path.exists() else None
    told = made_by.get("measured") if isinstance(made_by, dict) else None
    return told if isinstance(told, str) else None


def starting_weights(model: ModelFolder) -> str:
    """What the weights were trained on, for tables."""
    if model.weights_sha256 == RANDOM:
        return "nothing (random weights)"
    if model.path == PACKAGED:
        return PRESETS[PACKAGED].start_weights_saw
    told = read_object(model.folder / "raypipe.json").get("start_weights_saw")
    own = model.conventions.start_weights_saw
    return own if model.adapter is not None or not isinstance(told, str) else told
