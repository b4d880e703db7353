"""The model that a worker of a training opens before the first step."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.folder.adapters import CONFIG, PEFT, WEIGHTS, adapter_folder
from raypipe.models.folder.opening import layouts_of, load_weights
from raypipe.text.inputs import Layouts
from raypipe.training.job import Job
from raypipe.training.model.lowrank import LowRank
from raypipe.training.model.pretraining_tensors import PretrainingTensors, pretraining_tensors
from raypipe.training.model.starting_tensors import starting_tensors
from raypipe.training.model.trainee import Trainee


def layouts_for(job: Job) -> Layouts:
    """How the trained model's inputs are made, whatever kind of model it starts from."""
    return layouts_of(replace(job.start, conventions=job.conventions))


def pretraining_start(job: Job) -> PretrainingTensors:
    """The tensors of a pre-training before its first step."""
    recipe = job.recipe
    assert recipe.masking is not None
    return pretraining_tensors(
        None if recipe.model.weights == "random" else load_weights(job.start),
        job.start.config(),
        next_sentence=recipe.masking.next_sentence,
        draw_missing=recipe.model.draw_missing,
        seed=recipe.seed,
    )


def starting_tensors_of(job: Job) -> dict[str, Tensor]:
    """The trained tensors before the first step."""
    if job.is_pretraining:
        return pretraining_start(job).trained
    return starting_tensors(
        load_weights(job.start),
        job.start.config(),
        job.conventions,
        num_units=job.recipe.model.head,
        seed=job.recipe.seed,
        draw_missing=job.recipe.model.draw_missing,
        new_head=job.new_head,
    )


def trainee_of(job: Job, device: str) -> Trainee:
    """The model before its first step, the same in every worker."""
    recipe, conventions = job.recipe, job.conventions
    config = job.start.config()
    tensors = starting_tensors_of(job)
    adapter = recipe.model.adapter
    trainee = Trainee(
        tensors,
        config,
        conventions,
        low_rank=None if adapter is None else LowRank(adapter.rank, adapter.alpha),
        seed=recipe.seed,
        device=device,
        dropout=recipe.dropout,
        recompute=recipe.resources.recompute,
        bf16=recipe.resources.precision == "bf16",
    )
    if adapter is not None and adapter.start is not None:
        expected = job.spec.params["adapter_sha256"]
        start_from_(trainee, adapter_folder(adapter.start), sha256=expected)
    return trainee


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
    saved_config = json.loads((folder / CONFIG).read_bytes())
    own = trainee.low_rank
    assert own is not None
    if (saved_config["r"], saved_config["lora_alpha"]) != (own.rank, own.alpha):
        raise InputError(
            f"{folder}: expected an adapter of rank {own.rank} and alpha {own.alpha}, found rank "
            f"{saved_config['r']} and alpha {saved_config['lora_alpha']}"
        )
    saved = {n.removeprefix(PEFT): t for n, t in load(data).items()}
    for name, weight in trainee.weights.items():
        found = saved.get(name)
        if found is None and "lora_" not in name:
            continue
        if found is None or (found.shape != weight.shape and "embeddings" not in name):
            shape = "none" if found is None else list(found.shape)
            raise InputError(f"{folder}: {name}: expected {list(weight.shape)}, found {shape}")
        if found.shape == weight.shape:
            with torch.no_grad():
                weight.copy_(found)
