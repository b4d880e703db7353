import math

import numpy as np
import pytest
import torch

from raypipe.training.steps.objective import Objective


def test_judgements_are_added_to_a_teachers_loss_and_stand_alone_where_it_has_no_score():
    units = torch.tensor([[0.0, 2.0], [0.0, -1.0], [0.0, 0.0], [0.0, 0.0]], requires_grad=True)
    targets = np.array([1, 0, 1, 0], np.float32)
    teacher = np.array([[3.0, 1.0], [np.nan, np.nan]], np.float32)
    found = Objective("margin-mse", judgements=4.0).of_units(units, targets, 2, teacher, 1)
    # margins: (2 - -1) against (3 - 1): 1; cross-entropies: softplus(-2), softplus(-1); log 2 twice
    judged = (math.log1p(math.exp(-2)) + math.log1p(math.exp(-1))) / 2
    assert found.tolist() == pytest.approx([1.0 + 4 * judged, 4 * math.log(2)])
    found.sum().backward()
    assert units.grad.isfinite().all()
    alone = Objective("margin-mse").of_units(units, targets, 2, teacher, 1)
    assert alone.tolist() == pytest.approx([1.0, 0.0])


def test_margin_mse_of_a_duo_regresses_both_orders_on_the_teachers_margin():
    # Inputs of an example: (relevant, other), (other, relevant) of each of its two negatives.
    units = torch.tensor([[0.0, 2.0], [0.0, -1.5], [1.0, 0.0], [0.0, 0.5]])
    targets = np.array([1, 0, 1, 0], np.float32)
    teacher = np.array([[3.0, 1.0, 4.0]], np.float32)
    found = Objective("margin-mse").of_units(units, targets, 4, teacher, 1, duo=True)
    # margins 2 and -1: raw 2, -1.5 against 2, -2; raw -1, 0.5 against -1, 1
    assert found.tolist() == pytest.approx([(0 + 0.25 + 0 + 0.25) / 4])
