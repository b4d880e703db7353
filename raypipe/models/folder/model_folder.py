"""A model folder as a value: where it lies, its hashes, its conventions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.family import Family, family_of
from raypipe.models.folder.conventions import AnyConventions, Conventions, PairConventions
from raypipe.models.folder.presets import PRESETS

PACKAGED = "minilm"
"""The model that comes with raypipe's dependencies."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model as it lies on disk; equal hashes are equal models."""

    path: str
    """As it was named: a folder, or `minilm`."""
    folder: Path
    conventions: AnyConventions
    weights_sha256: str
    tokenizer_sha256: str
    """Of the tokenizer as built: see `raypipe.models.tokenizer`."""
    config_read: Mapping[str, Any]
    """config.json as the driver read it; workers get it from here and read the file no more."""
    adapter: Path | None = None
    """A low-rank adapter over the folder's weights, merged on load."""

    def config(self) -> dict[str, Any]:
        """config.json."""
        return dict(self.config_read)

    @property
    def family(self) -> Family[Any]:
        """The family that config.json names.

        Raises:
            InputError: it is unknown; `resolve_model` lets none through.
        """
        return family_of(self.config_read)

    def forward_config(self) -> dict[str, Any]:
        """The values of config.json that decide a row, by name; part of the fingerprint."""
        return self.family.files.decisive(self.config_read)

    @property
    def encoder(self) -> Conventions:
        """The conventions of an encoder.

        Raises:
            InputError: the model is none.
        """
        if not isinstance(self.conventions, Conventions):
            raise InputError(
                f"{self.path}: expected an encoder, found a {self.conventions.kind} model, which "
                "scores pairs and makes no embeddings"
            )
        return self.conventions

    @property
    def reranker(self) -> PairConventions:
        """The conventions of a mono or duo model.

        Raises:
            InputError: the model is an encoder.
        """
        if not isinstance(self.conventions, PairConventions):
            raise InputError(
                f"{self.path}: expected a mono or duo model, found an encoder, which has no head "
                "that scores; name a reranker, or search with this one"
            )
        return self.conventions


def starting_weights(model: ModelFolder) -> str:
    """What the weights had seen, for tables."""
    if model.path == PACKAGED:
        return PRESETS[PACKAGED].start_weights_saw
    return model.conventions.start_weights_saw
