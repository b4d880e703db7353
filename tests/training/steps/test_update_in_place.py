from types import SimpleNamespace

import torch

from raypipe.training.steps.update import load_weights_


def test_weights_are_set_in_place():
    weights = {"a": torch.zeros(2), "b": torch.zeros(1)}
    load_weights_(
        SimpleNamespace(weights=weights),
        {"weight.a": torch.tensor([1.0, 2.0]), "weight.b": torch.tensor([3.0]), "first.a": None},
    )
    assert weights["a"].tolist() == [1.0, 2.0] and weights["b"].tolist() == [3.0]
