"""The losses of pre-training, as sums: the batch's own numbers divide them."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.training.model.trainee import Trainee
from raypipe.training.pretraining.batch import MaskedBatch
from raypipe.training.pretraining.masking import NOT_PREDICTED


def summed_losses(trainee: Trainee, batch: MaskedBatch) -> tuple[Tensor, Tensor | None]:
    """The cross-entropy of all predicted pieces, and of all pairs; fp32 scalars.

    Divided by the number of pieces and of pairs in the whole batch they add up to the loss of
    transformers' BertForPreTraining. Source: Devlin et al. 2019, appendix A.2.
    """
    places = torch.from_numpy(np.flatnonzero(batch.targets != NOT_PREDICTED)).to(trainee.device)
    words, follows = trainee.predictions(
        batch.inputs, places, next_sentence=batch.follows is not None
    )
    targets = torch.from_numpy(batch.targets).to(trainee.device)[places]
    of_words = F.cross_entropy(words, targets, reduction="sum")
    if batch.follows is None or follows is None:
        return of_words, None
    labels = torch.from_numpy(batch.follows).to(trainee.device)
    return of_words, F.cross_entropy(follows, labels, reduction="sum")
