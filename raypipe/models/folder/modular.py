"""The head of a cross-encoder of sentence-transformers whose modules lie in folders, as Ettin's.

Transformer, Pooling, Dense, LayerNorm, Dense are what a ModernBertForSequenceClassification
computes, so such a folder is read as one. The normalisation's bias is added to the classifier's,
which is the same sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from raypipe.errors import InputError, some
from raypipe.models.folder.files import tensor_shapes
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.modernbert.family import FAMILY
from raypipe.models.modernbert.files import HEAD_BIAS
from raypipe.models.tensors import Config, Shape, unit_names

if TYPE_CHECKING:
    from torch import Tensor


T = TypeVar("T")
FILES = FAMILY.files
MODULES = ("Transformer", "Pooling", "Dense", "LayerNorm", "Dense")
TENSORS = "model.safetensors"
LAYER_NORM_EPS = 1e-5
"""Of torch's LayerNorm, which the module's files do not state."""
EMBEDDING = "sentence_embedding"
FIRST = {
    "activation_function": ("torch.nn.modules.activation.GELU", "torch.nn.GELU"),
    "module_output_name": (EMBEDDING, None),
}
LAST = {
    "activation_function": ("torch.nn.modules.linear.Identity", "torch.nn.Identity"),
    "module_output_name": ("scores",),
}
"""What a Dense must state, before the normalisation and behind it."""


@dataclass(frozen=True, slots=True)
class ModularHead:
    """A head that is computed as a ModernBERT's own."""

    files: list[Path]
    """Those of the first layer, the normalisation and the classifier."""
    config: dict[str, Any]
    """config.json of the same model as transformers would save it."""

    def shapes(self) -> dict[str, Shape]:
        """Shapes by the names of transformers' model.

        Raises:
            InputError: a file is not a safetensors file.
        """
        parts = [tensor_shapes(file) for file in self.files]
        bias = {FILES.HEADS[1]: (self.config["num_labels"],)} if "norm.bias" in parts[1] else {}
        return _named(parts) | bias

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by the same names, fp32."""
        from safetensors.torch import load_file

        parts = [{n: t.float() for n, t in load_file(file).items()} for file in self.files]
        _, norm, last = parts
        bias = last["linear.weight"] @ norm["norm.bias"] + last.get("linear.bias", 0.0)
        return _named(parts) | {FILES.HEADS[1]: bias}


def _named(parts: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """What the three files have by transformers' names, but for the classifier's bias."""
    dense, norm, last = parts
    (first, second), weight = FILES.POOLER, FILES.HEADS[0]
    sources = (
        (first, dense, "linear.weight"),
        (HEAD_BIAS, dense, "linear.bias"),
        (second, norm, "norm.weight"),
        (weight, last, "linear.weight"),
    )
    return {name: part[own] for name, part, own in sources if own in part}


def modular_head(files: ModelFiles, config: Config) -> ModularHead | None:
    """The head in the folders beside a ModernBERT; None if there is none, or another one.

    Raises:
        InputError: a file of the folder is not JSON, the path of a module is no name, or
            its weights are not there.
    """
    names, places = [name for name, _ in files.modules], [place for _, place in files.modules]
    if config.get("model_type") != FILES.kind or names != [*MODULES]:
        return None
    pooling, dense, norm, last = (files.read(place, "config.json") for place in places[1:])
    width, units = config.get("hidden_size"), last.get("out_features", 0)
    fits = (
        not FILES.unpacked(config)
        and places[0] == ""
        and pooling.get("pooling_mode") in ("cls", "mean")
        and (dense.get("in_features"), dense.get("out_features")) == (width, width)
        and norm.get("dimension") == width == last.get("in_features")
        and config.get("norm_eps") == LAYER_NORM_EPS
        and type(units) is int
        and units in (1, 2)
        and _states(dense, FIRST)
        and _states(last, LAST)
    )
    if not fits:
        return None
    own = {
        **config,
        "architectures": [FILES.architecture(head=True)],
        "classifier_pooling": pooling["pooling_mode"],
        "classifier_bias": dense.get("bias", True),
        "num_labels": units,
        **unit_names(units),
    }
    weights = [files.folder / place / TENSORS for place in places[2:]]
    if lacking := [str(file) for file in weights if not file.exists()]:
        raise InputError(f"{some(lacking)}: no such file; fetch the whole model, or save it anew")
    return ModularHead(weights, own)


def _states(dense: Config, expected: Mapping[str, tuple[str | None, ...]]) -> bool:
    """Whether the config.json of a Dense that reads embeddings states these settings."""
    reads = dense.get("module_input_name", EMBEDDING) == EMBEDDING
    stated = all(dense.get(key) in values for key, values in expected.items())
    return reads and stated and not dense.get("use_residual")


def as_saved(files: ModelFiles) -> dict[str, Any]:
    """The content of config.json; of a model with such a head, as transformers would save it."""
    head = modular_head(files, files.config)
    return files.config if head is None else head.config


def checkpoint_shapes(files: ModelFiles, config: Config) -> dict[str, Shape]:
    """Shapes by saved name of a folder's tensors, with those of such a head.

    Raises:
        InputError: a file is not a safetensors file, or see `ModularHead.shapes`.
    """
    head = modular_head(files, config)
    return tensor_shapes(files.folder / TENSORS) | ({} if head is None else head.shapes())
