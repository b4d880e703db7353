"""One worker of a group of `world`: the gradient of one made-up global batch, saved by rank 0.

python gradients.py FOLDER MODEL KIND RANK WORLD BUDGET
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file

from raypipe.models.folder.model_folder import layouts_of, load_weights, resolve_model
from raypipe.models.folder.settings import PRESETS
from raypipe.text.inputs import TextSlice
from raypipe.training.batch import Batch
from raypipe.training.comm import Comm, Group
from raypipe.training.losses import Objective
from raypipe.training.sparsity import Penalty
from raypipe.training.start import starting_tensors
from raypipe.training.steps import backward
from raypipe.training.trainee import LowRank, Trainee

KINDS = {
    "mono": ("monobert", "cross-entropy"),
    "duo": ("duobert", "cross-entropy"),
    "encoder": ("repbert", "multi-label-margin"),
    "encoder-nce": ("repbert", "info-nce"),
    "encoder-mse": ("repbert", "margin-mse"),
    "encoder-kl": ("repbert", "kl"),
    "low-rank": ("monobert", "cross-entropy"),
    "listwise": ("monobert", "listwise"),
}
SPARSE = {"splade": ("splade", "kl"), "splade-nce": ("splade", "info-nce")}
"""The same of models that need a start with a masked-word head."""
PENALTY = Penalty(flops=(0.3, 0.1), l1=(0.02, 0.05))
"""That of SPARSE in the workers."""
LIMITS = {
    "mono": {"query_limit": 12, "total_limit": 64},
    "duo": {"query_limit": 12, "passage_limit": 24, "total_limit": 64, "segment_row": "copy"},
    "encoder": {"query_limit": 12, "passage_limit": 40},
}


def conventions_of(kind):
    found = PRESETS[{**KINDS, **SPARSE}[kind][0]]
    limits = LIMITS["encoder" if found.kind == "encoder" else found.kind]
    return replace(found, **limits)


def make_batch(num_examples=13, num_passages=2, seed=0, *, unlabelled=False):
    """Texts of 1 to 50 pieces; 13 examples, as in RepBERT's batches; some other positives."""
    rng = np.random.default_rng(seed)

    def part(count, low, high):
        counts = rng.integers(low, high, count)
        flat = rng.integers(5, 60, counts.sum()).astype(np.uint16)
        return TextSlice(flat, np.cumsum(counts) - counts, counts)

    positive = rng.random((num_examples, num_examples * num_passages)) < 0.05
    positive[np.arange(num_examples), np.arange(num_examples) * num_passages] = True
    return Batch(
        part(num_examples, 1, 15),
        part(num_examples * num_passages, 1, 50),
        num_passages,
        positive,
        teacher=rng.normal(size=(num_examples, num_passages)).astype(np.float32),
        judged=rng.random(num_examples) < 0.7 if unlabelled else None,
        first_stage=rng.random((num_examples, num_passages)).astype(np.float32),
    )


def objective_of(kind):
    """The loss; listwise's with a blend and a teacher, which the others do not read."""
    return Objective({**KINDS, **SPARSE}[kind][1], blend=3.0, teacher_weight=0.5)


def make_trainee(model_path, kind, **settings):
    model = resolve_model(str(model_path), {**KINDS, **SPARSE}[kind][0])
    conventions = conventions_of(kind)
    tensors = starting_tensors(
        load_weights(model), model.config(), conventions, num_units=2, seed=3
    )
    low_rank = LowRank(2, 4.0) if kind == "low-rank" else None
    settings = {"dropout": 0.0, "seed": 3, "low_rank": low_rank, **settings}
    trainee = Trainee(tensors, model.config(), conventions, **settings)
    if low_rank is not None:  # so that both sides of the update have a gradient
        generator = torch.Generator().manual_seed(9)
        with torch.no_grad():
            for name, weight in trainee.weights.items():
                if name.endswith("lora_B.weight"):
                    weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return trainee, layouts_of(replace(model, conventions=conventions))


def gradients(trainee, layouts, kind, comm, *, budget=2048, batch=None, draw=(0, 0), penalty=None):
    """(loss, gradient by name) of the batch's mean loss, summed over the workers."""
    batch = make_batch(unlabelled=kind == "listwise") if batch is None else batch
    worked = backward(
        trainee,
        batch,
        objective_of(kind),
        comm,
        layouts,
        budget_tokens=budget,
        weight=1.0,
        draw=draw,
        penalty=penalty,
    )
    found = {
        name: torch.zeros_like(w) if w.grad is None else w.grad.clone()
        for name, w in trainee.weights.items()
    }
    loss = worked.loss.reshape(1).clone()
    comm.sum_([*found.values(), loss])
    return loss, found


def main():
    folder, model, kind, rank, world, budget = sys.argv[1:]
    torch.set_num_threads(1)
    rank, world = int(rank), int(world)
    if world > 1:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/group-{kind}-{world}",
            rank=rank,
            world_size=world,
        )
    comm = Group() if world > 1 else Comm()
    out = {}
    for each in kind.split(","):
        trainee, layouts = make_trainee(model, each)
        own = {"budget": int(budget), "penalty": PENALTY if each in SPARSE else None}
        loss, found = gradients(trainee, layouts, each, comm, **own)
        out |= {f"{each} {name}": gradient for name, gradient in found.items()}
        out[f"{each} loss"] = loss
    if rank == 0:
        save_file(out, str(Path(folder) / f"gradients-{world}.safetensors"))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
