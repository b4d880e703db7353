"""Describes a model folder and its problems, without loading a tensor.

The problems are those of `resolve_model`, and what a loader would find in the tensors.
"""

from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from safetensors import safe_open

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.adapters import (
    CONFIG,
    WEIGHTS,
    base_of,
    is_adapter,
    merged_shapes,
)
from raypipe.models.folder.discover import RECORD, Discovered, discover, why_library
from raypipe.models.folder.files import (
    compare,
    config_problems,
    fit_problems,
    read_object,
    tensor_shapes,
)
from raypipe.models.folder.model_folder import (
    PACKAGED,
    folder_of,
    is_folder,
    resolve_model,
    starting_weights,
    tried,
)
from raypipe.models.folder.modules import ModelFiles, as_saved, checkpoint_shapes
from raypipe.models.folder.settings import AnyConventions, Conventions
from raypipe.models.library import described
from raypipe.models.tensors import Config
from raypipe.models.tokenizer import tokenizer_file
from raypipe.storage.records import hash_once

SAW = "start_weights_saw"
SIZES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "positions": "max_position_embeddings",
}


@dataclass(slots=True)
class Description:
    """A model folder's facts; `problems` is empty if raypipe can use the folder as it is."""

    path: str
    folder: str
    kind: str | None = None
    conventions: dict[str, Any] | None = None
    sources: dict[str, str] | None = None
    """The source of each setting."""
    architecture: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] | None = None
    """file, sha256, bytes, dtypes, tensors, parameters, segment_rows, head_units."""
    tokenizer: dict[str, Any] | None = None
    unused: list[str] | None = None
    """Tensors that raypipe does not read; None if config.json is refused."""
    missing: list[str] | None = None
    made_by: dict[str, Any] | None = None
    """The record of convert, if it made the folder."""
    training: str = "not known"
    """yes, or no with the reason."""
    proof: str = "not made"
    """Whether raypipe computes what the model's own library does; `describe` does not ask."""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def describe(path: str, preset: str | None) -> Description:
    """All facts of a model folder, or of `minilm`.

    Raises:
        InputError: there is no such folder.
    """
    preset = PACKAGED if path == PACKAGED and preset is None else preset
    files = ModelFiles(is_folder(folder_of(path)))
    named = files.folder
    description = Description(path, str(named))
    problems = description.problems
    why = None if path == PACKAGED or is_adapter(named) else why_library(files, preset)
    if why is not None:
        return _of_library(description, files, preset, why)
    resolved = tried(resolve_model, path, preset, problems=problems)
    adapter, weights = named if is_adapter(named) else None, files
    if adapter is not None:
        base = tried(base_of, files, problems=problems)
        if base is None:  # all other files are its base's
            description.problems = list(dict.fromkeys(problems))
            return description
        weights = ModelFiles(folder_of(base))
        description.notes.append(f"an adapter for {base}, merged when it is loaded")
    discovered = tried(discover, files, preset, problems=problems)
    if discovered is not None:
        _describe_settings(description, files, discovered)
        own = discovered.conventions.start_weights_saw
        if resolved is not None and (saw := starting_weights(resolved)) != own:
            description.conventions = asdict(discovered.conventions) | {SAW: saw}
            description.sources = {**discovered.sources, SAW: "of these weights"}
    conventions = None if discovered is None else discovered.conventions
    config = tried(as_saved, weights, problems=problems) or {}
    family = tried(family_of, config, problems=[])  # an unknown one is among the problems already
    sizes = family and tried(family.files.as_bert, config, problems=[])
    description.architecture = {
        "architectures": config.get("architectures"),
        "model_type": config.get("model_type"),
        **{name: (sizes or config).get(key) for name, key in SIZES.items()},
        "vocabulary": config.get("vocab_size"),
    }
    description.tokenizer = tried(_tokenizer_facts, weights, problems=problems)
    file = weights.folder / "model.safetensors" if adapter is None else adapter / WEIGHTS
    description.weights = tried(_file_facts, file, problems=problems) if file.exists() else None
    if description.weights is not None and family is not None:
        _describe_weights(description, weights, adapter, config, conventions)
    if family is not None:
        description.training = _training(conventions)
    description.problems = list(dict.fromkeys(problems))
    return description


def _of_library(
    description: Description, files: ModelFiles, preset: str | None, why: str
) -> Description:
    """The facts of a model that sentence-transformers computes, as that library has them."""
    problems, config = description.problems, files.transformer.config
    names = {"architectures": "architectures", "model_type": "model_type", **SIZES}
    description.architecture = {name: config.get(key) for name, key in names.items()}
    description.notes.append(f"sentence-transformers computes this model: {why}")
    description.training = "no: sentence-transformers computes it, and raypipe trains its own"
    try:
        discovered, read, sha256 = described(files, preset)
    except InputError as error:
        problems += error.problems
        return description
    _describe_settings(description, files, discovered)
    by = f"sentence-transformers {read['sentence-transformers']}, as {read['class']}"
    description.architecture |= {"computed by": by, "dimensions": read["dim"] or None}
    prompt = getattr(discovered.conventions, "query_prefix", "")
    if prompt and read["class"] == "CrossEncoder":
        description.notes.append(f"each pair begins with the prompt {prompt!r}")
    description.weights, description.missing = {"sha256": sha256}, []
    return description


def _describe_settings(description: Description, files: ModelFiles, discovered: Discovered) -> None:
    """Fill in the settings, with what the folder's files say of them."""
    description.kind = discovered.conventions.kind
    description.conventions = asdict(discovered.conventions)
    description.sources = discovered.sources
    description.notes += discovered.notes
    description.made_by = files.read("raypipe.json").get(RECORD)


def _describe_weights(
    description: Description,
    base: ModelFiles,
    adapter: Path | None,
    config: Config,
    conventions: AnyConventions | None,
) -> None:
    """Fill in what is unused and missing, and what does not fit the settings."""
    assert description.weights is not None
    shapes = tried(checkpoint_shapes, base, config, problems=description.problems)
    if shapes is None or config_problems(config):
        return
    files = family_of(config).files
    if adapter is not None:
        description.weights["rank"] = read_object(adapter / CONFIG).get("r")
        shapes = tried(merged_shapes, shapes, config, adapter, problems=description.problems)
        if shapes is None:
            return
    else:
        names = files.canonical_names(shapes)
        places = {place: shapes[name] for place, name in names.items()}
        description.weights |= {
            "parameters": sum(map(prod, places.values())),
            "segment_rows": next(iter(places.get(files.SEGMENTS, ())), None),
            "head_units": next(iter(places.get(files.HEADS[0], ())), None),
        }
    if conventions is None:
        return
    compared = compare(shapes, config, conventions)
    description.missing, description.unused = compared.missing, compared.unused
    where = f"{description.path} over {base.folder}" if adapter else base.folder
    problems = fit_problems(shapes, config, conventions)
    description.problems += [f"{where}: {problem}" for problem in problems]


def _file_facts(file: Path) -> dict[str, Any]:
    """The facts of a file of tensors.

    Raises:
        InputError: not a safetensors file.
    """
    shapes = tensor_shapes(file)
    with safe_open(file, framework="numpy") as opened:
        dtypes = {str(opened.get_slice(n).get_dtype()) for n in opened.keys()}  # noqa: SIM118
    return {
        "file": file.name,
        "sha256": hash_once(file),
        "bytes": file.stat().st_size,
        "dtypes": sorted(dtypes),
        "tensors": len(shapes),
        "parameters": sum(map(prod, shapes.values())),
    }


def _tokenizer_facts(files: ModelFiles) -> dict[str, Any] | None:
    """The tokenizer's file and size; None if there is none.

    Raises:
        InputError: it is no tokenizer.
    """
    file = tokenizer_file(files.folder)
    if not file.exists():
        return None
    pieces = files.tokenizer.get_vocab_size()
    return {"file": file.name, "sha256": hash_once(file), "pieces": pieces}


def _training(conventions: AnyConventions | None) -> str:
    """Whether a training may start from the model, and else why not."""
    if isinstance(conventions, Conventions) and conventions.truncate_dim:
        return "no: what follows pooling is not trained; its body is, with model.preset"
    if isinstance(conventions, Conventions) and conventions.query_table is not None:
        return "no: queries by a table are not trained; its body is, with model.preset: splade"
    return "yes"
