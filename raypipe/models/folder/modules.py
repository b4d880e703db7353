"""A model folder's files, each read once, and the modules of one of sentence-transformers.

Modules are in modules.json, one after the other, or in the two routes of a Router: a sparse
encoder's documents are computed by a model, and its queries by a table with a weight for each word
piece. Transformer, Pooling, Dense, LayerNorm, Dense, as Ettin's cross-encoders have them, are what
a ModernBertForSequenceClassification computes, so such a folder is read as one. The normalisation's
bias is added to the classifier's, which is the same sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field
from tokenizers import Tokenizer

from raypipe.errors import InputError, some
from raypipe.models.family import family_of
from raypipe.models.folder.files import part_of, read_json, read_object, tensor_shapes
from raypipe.models.folder.settings import AnyConventions, Conventions, FileName, schema_problems
from raypipe.models.modernbert.family import FAMILY
from raypipe.models.modernbert.files import HEAD_BIAS
from raypipe.models.tensors import Config, Shape, unit_names
from raypipe.models.tokenizer import read_tokenizer
from raypipe.storage.records import hash_once

if TYPE_CHECKING:
    from torch import Tensor

SETTINGS = "config_sentence_transformers.json"
LATE = ("MultiVectorEncoder", "ColBERT")
"""Models of late interaction, as sentence-transformers and PyLate name them."""
TRANSFORMERS = ("Transformer", "MLMTransformer")
"""The first module; a sparse encoder's has the masked-word head."""
ROUTER = "Router"
QUERY_TABLE = "SparseStaticEmbedding"
"""The module of the route query."""
ROUTES = "router_config.json"
TENSORS = "model.safetensors"
"""The file of a module's tensors; a table has one, weight [V]."""
MODERNBERT = FAMILY.files
MODULAR = ("Transformer", "Pooling", "Dense", "LayerNorm", "Dense")
"""The modules of a cross-encoder whose head lies in folders of its own."""
LAYER_NORM_EPS = 1e-5
"""Of torch's LayerNorm, which the module's files do not state."""
EMBEDDING = "sentence_embedding"
FIRST_DENSE = {
    "activation_function": ("torch.nn.modules.activation.GELU", "torch.nn.GELU"),
    "module_output_name": (EMBEDDING, None),
}
LAST_DENSE = {
    "activation_function": ("torch.nn.modules.linear.Identity", "torch.nn.Identity"),
    "module_output_name": ("scores",),
}
"""What a Dense must state, before the normalisation and behind it."""
T = TypeVar("T")


def _inside(path: str) -> str:
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise ValueError("it leads out of the model's folder, which alone is hashed")
    return path


class Module(BaseModel):
    """An entry of modules.json; other keys of it are not read."""

    path: Annotated[
        FileName, AfterValidator(_inside), Field(description="the name of a folder in this one")
    ] = ""


class ModelFiles:
    """The files of a model's folder that state its settings, each read once."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet, and no file need be there."""
        self.folder, self._objects = folder, dict[str, dict[str, Any]]()

    def read(self, *parts: str) -> dict[str, Any]:
        """The JSON object in a file, as `read_object` has it, by the parts of its path."""
        name = str(Path(*parts))
        if name not in self._objects:
            self._objects[name] = read_object(self.folder / name)
        return self._objects[name]

    @property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        return self.read("config.json")

    @property
    def settings(self) -> dict[str, Any]:
        """The content of sentence-transformers' own file."""
        return self.read(SETTINGS)

    @property
    def prompts(self) -> dict[str, Any]:
        """The texts that these settings name, by their names."""
        return part_of(self.settings, "prompts", self.folder / SETTINGS)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, as `read_tokenizer` has it."""
        return read_tokenizer(self.folder)

    @cached_property
    def listed(self) -> list[tuple[str, str]]:
        """(class, folder) of each entry of modules.json, in order; empty if there is none.

        Raises:
            InputError: not JSON, or the path of a module is no name of a folder in this one.
        """
        file = self.folder / "modules.json"
        body = read_json(file)
        entries = [e for e in body if isinstance(e, dict)] if isinstance(body, list) else []
        for entry in entries:
            problems = schema_problems(Module, entry, missing="save the model anew")
            if problems:
                raise InputError([f"{file}: {problem}" for problem in problems])
        return [(str(e.get("type", "")).rpartition(".")[2], e.get("path", "")) for e in entries]

    @cached_property
    def routes(self) -> dict[str, list[tuple[str, str]]]:
        """(class, folder) of each module of a Router's routes, by route; empty without a Router.

        Raises:
            InputError: not JSON, or the folder of a module is no name.
        """
        if self.listed != [(ROUTER, "")]:
            return {}
        body, file = self.read(ROUTES), self.folder / ROUTES
        types = part_of(body, "types", file)
        routes = {
            route: [(str(types.get(str(place))).rpartition(".")[2], str(place)) for place in places]
            for route, places in part_of(body, "structure", file).items()
            if isinstance(places, list)
        }
        for place in (place for modules in routes.values() for _, place in modules):
            if schema_problems(Module, {"path": place}, missing=""):
                raise InputError(f"{file}: expected the names of folders, found {place[:60]!r}")
        return routes

    @property
    def modules(self) -> list[tuple[str, str]]:
        """(class, folder) of each module, in order; of a Router those of documents."""
        return self.routes.get("document") or self.listed

    @property
    def is_sentence_transformer(self) -> bool:
        """Whether there is pooling or a Router; a cross-encoder has only a Transformer."""
        return len(self.listed) > 1 or [name for name, _ in self.listed] == [ROUTER]

    @cached_property
    def transformer(self) -> ModelFiles:
        """The transformer's own files: these, or those in its folder in modules.json."""
        place = self.modules[0][1] if self.modules and self.modules[0][0] in TRANSFORMERS else ""
        inside = self.folder / place
        is_inside = place and Path(place).name == place and inside.is_dir()
        return ModelFiles(inside) if is_inside else self


def table_of(folder: Path, own: AnyConventions | None, config: Config | None) -> str | None:
    """SHA-256 of the table that an encoder's settings name; None if they name none, or if they or
    config.json could not be read.

    Raises:
        InputError: it is not there, or has not one weight for each word piece.
    """
    if config is None or not isinstance(own, Conventions) or own.query_table is None:
        return None
    place = folder / own.query_table
    inside = own.query_table not in ("", "..") and Path(own.query_table).name == own.query_table
    if not inside or not place.is_dir():
        raise InputError(
            f"{folder}: query_table: expected a folder in it, found {own.query_table!r}"
        )
    file = place / TENSORS
    if not file.exists():
        raise InputError(
            f"{place}: expected {TENSORS}, found none; save the model anew: "
            f"SparseEncoder({str(folder)!r}).save_pretrained(DIR) writes it"
        )
    shapes = tensor_shapes(file)
    expected = {"weight": (family_of(config).files.as_bert(config)["vocab_size"],)}
    if shapes != expected:
        raise InputError(
            f"{file}: expected the tensors {expected}, a weight for each word piece of the "
            f"vocabulary, found {shapes}; it belongs to another model"
        )
    return hash_once(file)


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
        bias = (
            {MODERNBERT.HEADS[1]: (self.config["num_labels"],)} if "norm.bias" in parts[1] else {}
        )
        return _named(parts) | bias

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by the same names, fp32."""
        from safetensors.torch import load_file

        parts = [{n: t.float() for n, t in load_file(file).items()} for file in self.files]
        _, norm, last = parts
        bias = last["linear.weight"] @ norm["norm.bias"] + last.get("linear.bias", 0.0)
        return _named(parts) | {MODERNBERT.HEADS[1]: bias}


def _named(parts: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """What the three files have by transformers' names, but for the classifier's bias."""
    dense, norm, last = parts
    (first, second), weight = MODERNBERT.POOLER, MODERNBERT.HEADS[0]
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
    if config.get("model_type") != MODERNBERT.kind or names != [*MODULAR]:
        return None
    pooling, dense, norm, last = (files.read(place, "config.json") for place in places[1:])
    width, units = config.get("hidden_size"), last.get("out_features", 0)
    fits = (
        not MODERNBERT.unpacked(config)
        and places[0] == ""
        and pooling.get("pooling_mode") in ("cls", "mean")
        and (dense.get("in_features"), dense.get("out_features")) == (width, width)
        and norm.get("dimension") == width == last.get("in_features")
        and config.get("norm_eps") == LAYER_NORM_EPS
        and type(units) is int
        and units in (1, 2)
        and _states(dense, FIRST_DENSE)
        and _states(last, LAST_DENSE)
    )
    if not fits:
        return None
    own = {
        **config,
        "architectures": [MODERNBERT.architecture(head=True)],
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
