"""The masked-word loss of a checkpoint on the inputs that were held out."""

import numpy as np
import torch

from raypipe.models.machine.device import BUDGET_TOKENS
from raypipe.text.batches import batches
from raypipe.training.model.trainee import Trainee
from raypipe.training.pretraining.batch import Maker
from raypipe.training.pretraining.losses import summed_losses
from raypipe.training.pretraining.masking import MEASURED
from raypipe.training.pretraining.sources import Chosen
from raypipe.training.steps.comm import Comm


def measured_losses(trainee: Trainee, maker: Maker, comm: Comm) -> list[float]:
    """The mean cross-entropy of the predicted pieces of each set's held-out inputs.

    Every checkpoint has the same inputs, masked once. The inputs are divided into forward passes
    before the workers share them, so that their number changes no value.
    """
    with trainee.measuring():
        return [_one(trainee, maker, number, comm) for number in range(len(maker.sources))]


def _one(trainee: Trainee, maker: Maker, number: int, comm: Comm) -> float:
    places = np.arange(maker.sources[number].held_out)
    batch = maker.batch(Chosen(np.full(len(places), number), places), MEASURED)
    parts = list(batches(batch.inputs.lengths, budget_tokens=BUDGET_TOKENS[trainee.device]))
    sums = torch.zeros(len(parts), dtype=torch.float64, device=trainee.device)
    for place in range(comm.rank, len(parts), comm.world):
        of_words, _ = summed_losses(trainee, batch.part(parts[place]))
        sums[place] = of_words.double()
    comm.sum_([sums])  # each pass has one owner, so the sum is its own value
    return float(sums.sum()) / max(1, batch.num_words)
