"""Some updates of a model on made-up batches, as a training makes them.

    python training_steps.py DEVICE MODEL...

prints of each model the SHA-256 of its weights after three updates with dropout, twice.
"""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # the checkout, installed or not


from raypipe.models.folder.model_folder import layouts_of, load_weights, resolve_model
from raypipe.text.inputs import TextSlice
from raypipe.training.batch import Batch
from raypipe.training.comm import Comm, make_deterministic
from raypipe.training.losses import Objective
from raypipe.training.start import starting_tensors
from raypipe.training.steps import Adam, backward, clip_
from raypipe.training.trainee import Trainee

LOSSES = {"encoder": "multi-label-margin", "mono": "cross-entropy", "duo": "cross-entropy"}


def make_batch(words, *, num_examples=9, num_passages=2, seed=0):
    """Texts of 1 to 120 pieces; beside each query's own first passage some others are relevant."""
    rng = np.random.default_rng(seed)

    def part(count, longest):
        counts = rng.integers(1, longest, count)
        flat = rng.integers(5, words, counts.sum()).astype(np.uint16)
        return TextSlice(flat, np.cumsum(counts) - counts, counts)

    positive = rng.random((num_examples, num_examples * num_passages)) < 0.05
    positive[np.arange(num_examples), np.arange(num_examples) * num_passages] = True
    query, passage = part(num_examples, 20), part(num_examples * num_passages, 120)
    return Batch(query, passage, num_passages, positive, None)


def make_trainee(model, device, **settings):
    tensors = starting_tensors(
        load_weights(model), model.config(), model.conventions, num_units=2, seed=3
    )
    # Vectors of length 1 give scores within 1 of each other; RepBERT's are not normalised.
    conventions = model.conventions
    if conventions.kind == "encoder":
        conventions = replace(conventions, normalise=False)
    return Trainee(tensors, model.config(), conventions, device=device, **settings)


def gradients(model, trainee, batch, *, budget=2048, draw=(0, 0)):
    """(loss, gradient by name) of the batch's mean loss."""
    worked = backward(
        trainee,
        batch,
        Objective(LOSSES[trainee.conventions.kind]),
        Comm(),
        layouts_of(model),
        budget_tokens=budget,
        weight=1.0,
        draw=draw,
    )
    found = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in trainee.weights.items()
    }
    for weight in trainee.weights.values():
        weight.grad = None
    return float(worked.loss), found


def digest_of_updates(model, device, *, updates=3):
    """What three updates with dropout leave: the SHA-256 of all weights."""
    words = int(model.config()["vocab_size"])
    trainee = make_trainee(model, device, dropout=0.1)
    optimiser = Adam(trainee.weights)
    for number in range(updates):
        batch = make_batch(words, seed=number)
        _, found = gradients(model, trainee, batch, budget=600, draw=(0, number))
        clip_(list(found.values()), 1.0)
        optimiser.step(list(found.values()), rate=1e-4, number=number + 1)
    digest = hashlib.sha256()
    for weight in trainee.weights.values():
        digest.update(weight.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    on, *folders = sys.argv[1:]
    make_deterministic(on, 1)
    for folder in folders:
        for _ in range(2):
            print(digest_of_updates(resolve_model(folder), on))
