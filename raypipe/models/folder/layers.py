"""The dense layers in a sentence-transformers folder, each a folder of its own, such as 2_Dense."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.conventions import AnyConventions, Conventions
from raypipe.models.folder.evidence import read_object, tensor_shapes
from raypipe.models.folder.schema import Flag, one_of, schema_problems
from raypipe.storage.records import hash_once

WEIGHTS = "model.safetensors"
NORMALISE = "normalise"
"""The word for a step that is no layer and divides a vector by its length."""
TANH = "torch.nn.Tanh"
ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
    TANH: "tanh",
}
"""By sentence-transformers' name, which for a layer without one is Tanh."""
EMBEDDING = "sentence_embedding"
"""sentence-transformers' name of what a module of a text's vector reads and writes."""


@dataclass(frozen=True, slots=True)
class DenseFile:
    """A layer on disk; its tensors are linear.weight [outer, inner], and linear.bias if it has
    one."""

    folder: str
    """Its name in the model's folder."""
    activation: str
    """identity or tanh."""
    sha256: str
    """Of its weights."""
    inner: int
    outer: int

    def to_json(self) -> dict[str, Any]:
        """What a fingerprint says of it."""
        return {"activation": self.activation, "sha256": self.sha256}


class DenseConfig(BaseModel):
    """config.json of a layer; other keys of it are not read."""

    activation_function: Annotated[str, one_of(*ACTIVATIONS, expected="Identity or Tanh")] = TANH
    bias: Flag = True
    use_residual: Annotated[Literal[False] | None, Field(description="false")] = None
    module_input_name: Annotated[str | None, one_of(EMBEDDING, "null")] = None
    module_output_name: Annotated[str | None, one_of(EMBEDDING, "null")] = None
    in_features: Annotated[int, Field(strict=True, description="a number of dimensions")]
    out_features: Annotated[int, Field(strict=True, description="a number of dimensions")]


def layers_of(
    folder: Path, own: AnyConventions | None, config: Mapping[str, Any] | None
) -> tuple[DenseFile | None, ...]:
    """The layers named by an encoder's settings, in order, and None for each `normalise`; none if
    the settings or config.json could not be read.

    Raises:
        InputError: a layer is missing, a pickle, or not one that raypipe computes, or sizes do not
            fit each other; all problems together.
    """
    if config is None or not isinstance(own, Conventions):
        return ()
    width = int(family_of(config).files.as_bert(config)["hidden_size"])
    problems: list[str] = []
    found: list[DenseFile | None] = []
    for step in own.dense:
        if step == NORMALISE:
            found.append(None)
            continue
        try:
            layer = _read(folder, step)
        except InputError as error:
            problems += error.problems
            continue
        if layer.inner != width:
            problems.append(
                f"{folder / step}: expected a layer of {width} dimensions, which it is given, "
                f"found one of {layer.inner}"
            )
        width = layer.outer
        found.append(layer)
    if not problems and own.truncate_dim is not None and own.truncate_dim > width:
        problems.append(
            f"{folder}: truncate_dim: expected at most {width}, the embeddings' dimensions, found "
            f"{own.truncate_dim}"
        )
    if problems:
        raise InputError(problems)
    return tuple(found)


def _read(folder: Path, name: str) -> DenseFile:
    place = folder / name
    if Path(name).name != name or not place.is_dir():
        raise InputError(f"{folder}: dense: expected {NORMALISE} or a folder in it, found {name!r}")
    config = read_object(place / "config.json")
    told = schema_problems(DenseConfig, config, missing=f"save {folder} anew")
    problems = [f"{place / 'config.json'}: {each}" for each in told]
    file = place / WEIGHTS
    if not file.exists():
        raise InputError([*problems, _without_weights(folder, place)])
    shapes = tensor_shapes(file)
    inner, outer = config.get("in_features"), config.get("out_features")
    expected: dict[str, Any] = {"linear.weight": (outer, inner)}
    if config.get("bias", True):
        expected["linear.bias"] = (outer,)
    if not problems and shapes != expected:
        problems.append(f"{file}: config.json says {_told(expected)}, the file has {_told(shapes)}")
    if problems:
        raise InputError(problems)
    outer, inner = shapes["linear.weight"]
    return DenseFile(name, ACTIVATIONS[_activation(config)], hash_once(file), inner, outer)


def _activation(config: Mapping[str, Any]) -> str:
    return str(config.get("activation_function", TANH))


def _without_weights(folder: Path, place: Path) -> str:
    pickles = sorted(path.name for path in place.iterdir() if path.suffix == ".bin")
    if not pickles:
        return f"{place}: expected {WEIGHTS}, found none"
    return (
        f"{place}: expected {WEIGHTS}, found {', '.join(pickles)}, a pickle, which can run code; "
        f"save the model anew where you trust it: SentenceTransformer({str(folder)!r})"
        ".save_pretrained(DIR) writes safetensors"
    )


def _told(shapes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in sorted(shapes.items())) or "none"
