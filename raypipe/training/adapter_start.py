"""The low-rank adapter that a training starts from, read as peft saved it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load

from raypipe.config.training import Training
from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.adapters import CONFIG, PEFT, WEIGHTS, adapter_folder
from raypipe.models.folder.files import read_object, tensor_shapes
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.settings import PairConventions
from raypipe.training.job import conventions_of_training
from raypipe.training.trainee import LowRank, Trainee

CHANGING = {
    "peft_type": "LORA",
    "bias": "none",
    **dict.fromkeys(("use_rslora", "use_dora", "use_qalora", "lora_bias"), False),
    **dict.fromkeys(("rank_pattern", "alpha_pattern", "layer_replication"), None),
    **dict.fromkeys(("target_parameters", "trainable_token_indices", "loftq_config"), None),
}
"""Settings of peft by which an adapter is no sum W + alpha / r B A, and their values otherwise."""
WITH_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")
"""Values of init_lora_weights, or their beginnings, that also change the base."""


def adapter_problems(recipe: Training) -> list[str]:
    """The problems of the adapter that a training starts from, told before any work."""
    adapter = recipe.model.adapter
    if adapter is None or adapter.start is None:
        return []
    where, folder = f"model.adapter.start: {adapter.start}", adapter_folder(adapter.start)
    missing = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        remedy = "save it anew with peft's save_pretrained, which writes both"
        if (folder / "model.safetensors").exists():
            remedy = "a whole model is model.start, without model.adapter.start"
        return [f"{where}: expected an adapter, found no {' and no '.join(missing)}; {remedy}"]
    try:
        settings = _adapter_settings(
            read_object(folder / CONFIG), LowRank(adapter.rank, adapter.alpha)
        )
    except InputError as error:
        settings = error.problems
    return [f"{where}: {problem}" for problem in settings]


def adapter_lacks(recipe: Training, start: ModelFolder) -> str:
    """The head's tensors that a reranker's starting adapter lacks, with commas."""
    adapter = recipe.model.adapter
    of_pairs = isinstance(conventions_of_training(recipe.model), PairConventions)
    if adapter is None or adapter.start is None or not of_pairs:
        return ""
    shapes = tensor_shapes(adapter_folder(adapter.start) / WEIGHTS)
    held = {name.removeprefix(PEFT) for name in shapes}
    return ", ".join(name for name in start.family.files.HEADS if name not in held)


def start_from_(trainee: Trainee, folder: Path, *, sha256: str) -> None:
    """Set the low-rank weights to those of an adapter; weights that it lacks stay as initialised.

    Raises:
        InputError: another rank or model, or not the adapter with this SHA-256.
    """
    file = folder / WEIGHTS
    data = file.read_bytes()
    found_sha256 = hashlib.sha256(data).hexdigest()
    if found_sha256 != sha256:
        raise InputError(
            f"{file}: expected an adapter with SHA-256 {sha256}, as at the start, found "
            f"{found_sha256}; every node must hold the same folder"
        )
    saved_config = read_object(folder / CONFIG)
    own = trainee.low_rank
    assert own is not None
    if problems := _adapter_settings(saved_config, own):
        raise InputError([f"{folder}: {problem}" for problem in problems])
    saved = {n.removeprefix(PEFT): t for n, t in load(data).items()}
    known = (*trainee.weights, *_left_behind(trainee))
    unknown = [name for name in saved if name not in known]
    if unknown:
        raise InputError(
            f"{folder}: expected updates of the layers that are trained, found others, "
            f"{', '.join(unknown[:3])}, whose effect the training would lose; merge it with peft "
            "(merge_and_unload) and start from that model"
        )
    for name, weight in trainee.weights.items():
        tensor = saved.get(name)
        if tensor is None and "lora_" not in name:
            continue
        if tensor is None or (tensor.shape != weight.shape and "embeddings" not in name):
            shape = "none" if tensor is None else list(tensor.shape)
            raise InputError(f"{folder}: {name}: expected {list(weight.shape)}, found {shape}")
        if tensor.shape == weight.shape:
            with torch.no_grad():
                weight.copy_(tensor)


def _adapter_settings(saved: Mapping[str, Any], own: LowRank) -> list[str]:
    """The problems of an adapter's settings, by which a training would go on."""
    found = (saved.get("r"), saved.get("lora_alpha"))
    if found != (own.rank, own.alpha):
        return [
            f"expected an adapter of rank {own.rank} and alpha {own.alpha}, found rank {found[0]} "
            f"and alpha {found[1]}; write model.adapter: {{rank: ..., alpha: ...}} so"
        ]
    named = [f"{n} {saved[n]}" for n, plain in CHANGING.items() if (saved.get(n) or plain) != plain]
    begun = str(saved.get("init_lora_weights")).lower()
    if begun.startswith(WITH_BASE):
        named.append(f"init_lora_weights {begun}")
    if not named:
        return []
    return [
        f"expected a plain low-rank adapter, W + alpha / r B A, found {', '.join(named)}; merge it "
        "with peft (merge_and_unload) and start from that model"
    ]


def _left_behind(trainee: Trainee) -> list[str]:
    """Tensors that an adapter of another kind of model may have: a head's, and segments."""
    files = family_of(trainee.config).files
    pooler = files.saved_name(files.POOLER[0], head=True).removesuffix(".weight")
    updates = [f"{pooler}.lora_{half}.weight" for half in "AB"]
    return [*files.HEADS, *updates, files.saved_name(files.SEGMENTS, head=True)]
