"""Adam with decoupled decay: torch's own where its settings are, by hand where BERT's are."""

import math

import pytest
import torch

from raypipe.training.steps.optimiser import Adam, clip_, decays, learning_rate


def test_with_bias_correction_it_is_torch_adamw():
    generator = torch.Generator().manual_seed(3)
    start = {"a.weight": torch.randn(4, 3, generator=generator), "a.bias": torch.randn(4)}
    own = {name: t.clone() for name, t in start.items()}
    theirs = {name: t.clone().requires_grad_(True) for name, t in start.items()}
    optimiser = Adam(own, eps=1e-8, weight_decay=0.1, bias_correction=True)
    groups = [
        {"params": [theirs["a.weight"]], "weight_decay": 0.1},
        {"params": [theirs["a.bias"]], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=1e-2, eps=1e-8)
    for number in range(1, 6):
        gradients = [torch.randn(4, 3, generator=generator), torch.randn(4, generator=generator)]
        for tensor, gradient in zip(theirs.values(), gradients, strict=True):
            tensor.grad = gradient.clone()
        reference.step()
        optimiser.step(gradients, rate=1e-2, number=number)
    for name in own:
        torch.testing.assert_close(own[name], theirs[name].detach(), rtol=1e-6, atol=1e-7)


def test_without_bias_correction_the_first_step_is_by_hand():
    weights = {"w.weight": torch.tensor([[1.0]])}
    Adam(weights, eps=1e-6, weight_decay=0.01).step([torch.tensor([[2.0]])], rate=0.1, number=1)
    # m = 0.1 * 2, v = 0.001 * 4; w - 0.1 * (m / (sqrt(v) + eps) + 0.01 * w)
    expected = 1.0 - 0.1 * (0.2 / (math.sqrt(0.004) + 1e-6) + 0.01 * 1.0)
    assert weights["w.weight"].item() == pytest.approx(expected, rel=1e-5)


def test_biases_and_layer_norms_do_not_decay():
    assert decays("bert.encoder.layer.0.output.dense.weight")
    assert decays("bert.embeddings.word_embeddings.weight")
    assert not decays("bert.encoder.layer.0.output.dense.bias")
    assert not decays("bert.encoder.layer.0.output.LayerNorm.weight")


@pytest.mark.parametrize(
    ("step", "decay", "expected"),
    [
        (0, "linear", 0.0),
        (5, "linear", 0.5),
        (10, "linear", 1.0),
        (55, "linear", 0.5),
        (100, "linear", 0.0),
        (10, "linear-from-start", 0.9),
        (55, "linear-from-start", 0.45),
        (99, "constant", 1.0),
    ],
)
def test_the_rate_rises_to_its_peak_and_falls(step, decay, expected):
    found = learning_rate(step, peak=1.0, warmup=10, total=100, decay=decay)
    assert found == pytest.approx(expected)


def test_gradients_above_the_limit_are_scaled_to_it_and_others_left():
    gradients = [torch.tensor([3.0]), torch.tensor([4.0])]
    assert clip_(gradients, 1.0) == pytest.approx(5.0)
    assert gradients[0].item() == pytest.approx(0.6, rel=1e-5)
    small = [torch.tensor([0.3]), torch.tensor([0.4])]
    assert clip_(small, 1.0) == pytest.approx(0.5)
    assert small[1].item() == pytest.approx(0.4)
    clip_(gradients, 0.0)
    assert gradients[1].item() == pytest.approx(0.8, rel=1e-5)
