"""What a batch's tokens are counted as."""

import gradients
import numpy as np
import torch

from raypipe.text.inputs import TextSlice
from raypipe.training.batch import Batch
from raypipe.training.comm import Comm
from raypipe.training.losses import Objective
from raypipe.training.steps import backward


def test_an_encoders_tokens_are_those_of_queries_and_passages_with_their_specials(tiny_model):
    trainee, layouts = gradients.make_trainee(tiny_model, "encoder")
    flat = np.full(30, 7, np.uint16)
    query = TextSlice(flat, np.zeros(2, np.int64), np.array([3, 4]))
    passage = TextSlice(flat, np.zeros(4, np.int64), np.array([5, 0, 6, 1]))
    positive = np.eye(2, 4, dtype=bool)
    batch = Batch(query, passage, 2, positive, None)
    given = (trainee, batch, Objective("multi-label-margin"), Comm(), layouts)
    worked = backward(*given, budget_tokens=99, weight=1.0, draw=(0,))
    assert worked.num_tokens == 3 + 4 + 5 + 0 + 6 + 1 + 2 * 6 and torch.isfinite(worked.loss)
