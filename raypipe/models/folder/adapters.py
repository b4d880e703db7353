"""Low-rank adapters for a base model, in peft's file format, merged on loading."""

import json
from collections.abc import Mapping
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.adapter_tensors import (
    PEFT,
    missing_problems,
    missing_tensors,
    plain_sum,
)
from raypipe.models.folder.config_checks import tensor_shapes
from raypipe.models.folder.evidence import read_object
from raypipe.models.tensors import Shape
from raypipe.storage.records import hash_file

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
SHIPPED = ("general-mono", "minilm-mono", "minilm-duo")
"""The included adapters for the packaged MiniLM."""


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter rather than a whole model."""
    return (folder / CONFIG).exists() and not (folder / "model.safetensors").exists()


def shipped_folder(name: str) -> Path:
    """The folder of an included adapter."""
    return Path(str(files("raypipe") / "adapters" / name))


def adapter_folder(path: str) -> Path:
    """The folder of an included adapter, or the given folder itself."""
    return shipped_folder(path) if path in SHIPPED else Path(path)


def base_of(folder: Path) -> str:
    """The adapter's base model, from raypipe.json.

    Raises:
        InputError: raypipe.json names none.
    """
    base = read_object(folder / "raypipe.json").get("base")
    if not isinstance(base, str):
        raise InputError(
            f'{folder}: an adapter without its model; name it in raypipe.json, "base": "minilm" '
            "or a folder"
        )
    return base


def adapter_names(folder: Path) -> list[str]:
    """Names of the tensors in the adapter's file, as peft writes them.

    Raises:
        InputError: not a safetensors file.
    """
    return list(tensor_shapes(folder / WEIGHTS))


def summed_shapes(
    base: Mapping[str, Shape], config: Mapping[str, Any], folder: Path
) -> dict[str, Shape]:
    """Shapes of what `merge` returns, by saved name, and of the updates by theirs.

    Args:
        base: those of the base's tensors, by saved name.
        config: its config.json.
        folder: the adapter's folder.

    Raises:
        InputError: the adapter's file is not a safetensors file.
    """
    named = family_of(config).files.trained_names(base, head=True)
    own = tensor_shapes(folder / WEIGHTS)
    kept = {named[name]: shape for name, shape in base.items() if name in named}
    return kept | {name.removeprefix(PEFT): shape for name, shape in own.items()}


def adapter_facts(folder: Path) -> dict[str, Any]:
    """The facts of its file for `model show`."""
    from safetensors import safe_open

    file = folder / WEIGHTS
    with safe_open(file, framework="numpy") as opened:
        parts = [opened.get_slice(name) for name in opened.keys()]  # noqa: SIM118
        shapes = [part.get_shape() for part in parts]
        dtypes = sorted({str(part.get_dtype()) for part in parts})
    return {
        "file": file.name,
        "sha256": hash_file(file),
        "bytes": file.stat().st_size,
        "dtypes": dtypes,
        "tensors": len(shapes),
        "parameters": sum(prod(shape) for shape in shapes),
        "rank": json.loads((folder / CONFIG).read_bytes())["r"],
    }


def merge(base: Mapping[str, Any], config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A reranker's tensors with the adapter's updates added, fp32, by transformers' names.

    Args:
        base: the base model's tensors, with or without a head's names.
        config: its config.json.
        folder: the adapter's folder, which has the segment rows that the base lacks.

    Raises:
        InputError: peft cannot apply the adapter to this model, or a tensor of the merged model is
            in neither file.
    """
    import torch
    from safetensors.torch import load_file

    family = family_of(config).files
    missing = missing_tensors(base, adapter_names(folder), config)
    problems = missing_problems(missing, "the base model", folder)
    if problems:
        raise InputError(problems)
    adapter = load_file(folder / WEIGHTS)
    own = {name.removeprefix(PEFT): name for name in adapter}
    segments = family.saved_name(family.SEGMENTS, head=True)
    trained = family.trained_names(base, head=True)
    named = {trained[name]: tensor for name, tensor in base.items() if name in trained}
    table = named.get(segments, torch.zeros(0, 0))
    num_segments = max(len(table), len(adapter[own[segments]]) if segments in own else 0)
    num_units = len(adapter[own[family.HEADS[1]]])
    kept = {**config, "num_labels": num_units, "type_vocab_size": num_segments}
    named = {name: tensor for name, tensor in named.items() if name not in family.HEADS}
    if segments in named:
        added = torch.zeros(num_segments - len(table), table.shape[1])
        named[segments] = torch.cat([table, added])
    summed = plain_sum(named, adapter, read_object(folder / CONFIG), kept)
    return merged_by_peft(named, kept, folder) if summed is None else summed


def merged_by_peft(
    named: Mapping[str, Any], config: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """The same for any adapter that peft can read; its import and transformers' take seconds.

    Args:
        named: the base's tensors by saved name with a head; what lacks comes with the adapter.
        config: the merged model's config.json.
        folder: the adapter's folder.

    Raises:
        InputError: peft cannot apply the adapter to this model.
    """
    import transformers
    from peft import PeftModel

    opened = getattr(transformers, family_of(config).files.architecture(head=True))
    model = opened(opened.config_class(**config))
    try:
        model.load_state_dict(named, strict=False)
        adapted = PeftModel.from_pretrained(model, str(folder))
        whole = adapted.merge_and_unload()
    except (ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"{folder}: not an adapter of this model: {error}") from error
    return {name: tensor.detach().float() for name, tensor in whole.state_dict().items()}
