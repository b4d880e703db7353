import math

import pytest
import torch

from raypipe.training.steps.optimiser import Adam


@pytest.mark.parametrize("corrected", [False, True])
def test_one_step_with_an_eps_that_matters_is_by_hand(corrected):
    weights = {"w.weight": torch.tensor([[1.0]])}
    settings = {"betas": (0.8, 0.9), "eps": 0.1, "weight_decay": 0.5}
    optimiser = Adam(weights, **settings, bias_correction=corrected)
    optimiser.step([torch.tensor([[0.2]])], rate=0.1, number=1)
    # m = 0.2 * 0.2, v = 0.1 * 0.04; corrected they are 0.2 and 0.04.
    change = 0.2 / (0.2 + 0.1) if corrected else 0.04 / (math.sqrt(0.004) + 0.1)
    assert weights["w.weight"].item() == pytest.approx(1 - 0.1 * (change + 0.5 * 1), rel=1e-6)


def test_with_a_large_eps_it_is_torchs_own_over_several_steps():
    generator = torch.Generator().manual_seed(5)
    own = {"a.weight": torch.randn(3, 2, generator=generator)}
    theirs = own["a.weight"].clone().requires_grad_(True)
    optimiser = Adam(own, eps=0.1, weight_decay=0.1, bias_correction=True)
    reference = torch.optim.AdamW([theirs], lr=1e-2, eps=0.1, weight_decay=0.1)
    for number in range(1, 5):
        gradient = torch.randn(3, 2, generator=generator)
        theirs.grad = gradient.clone()
        reference.step()
        optimiser.step([gradient], rate=1e-2, number=number)
    torch.testing.assert_close(own["a.weight"], theirs.detach(), rtol=1e-6, atol=1e-7)
