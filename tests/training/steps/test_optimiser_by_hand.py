import math

import pytest
import torch

from raypipe.training.steps.optimiser import Adam, clip_, decays, learning_rate


@pytest.mark.parametrize(
    ("step", "settings", "expected"),
    [
        (0, {"warmup": 0}, 1.0),
        (50, {"warmup": 0}, 0.5),
        (1, {"warmup": 4}, 0.25),
        (3, {"warmup": 4}, 0.75),
        (4, {"warmup": 4}, 1.0),
        (52, {"warmup": 4}, 0.5),
        (120, {"warmup": 4}, 0.0),
        (100, {"warmup": 100}, 0.0),
        (4, {"warmup": 4, "decay": "linear-from-start"}, 0.96),
        (2, {"warmup": 4, "decay": "constant"}, 0.5),
    ],
)
def test_rates_at_the_joints(step, settings, expected):
    assert learning_rate(step, peak=1.0, total=100, **settings) == pytest.approx(expected)


def test_a_norm_exactly_at_the_limit_is_left_and_0_is_no_limit():
    gradients = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
    assert clip_(gradients, 5.0) == 5.0
    assert gradients[0][0].item() == pytest.approx(3.0, rel=1e-6)
    assert clip_(gradients, 0.0) == pytest.approx(5.0)
    assert decays("a.weight") and not decays("a.bias") and not decays("x.LayerNorm.weight")


def test_two_steps_of_berts_optimiser_by_hand():
    weight = torch.tensor([1.0], dtype=torch.float64)
    adam = Adam({"w": weight}, betas=(0.5, 0.75), eps=0.5, weight_decay=0.5)
    first = second = 0.0
    expected = 1.0
    for number, gradient in ((1, 2.0), (2, -1.0)):
        adam.step([torch.tensor([gradient])], rate=0.25, number=number)
        first = 0.5 * first + 0.5 * gradient
        second = 0.75 * second + 0.25 * gradient**2
        expected = expected * (1 - 0.25 * 0.5) - 0.25 * first / (math.sqrt(second) + 0.5)
        assert weight.item() == pytest.approx(expected, rel=1e-6)
    assert adam.state()["first.w"].item() == first == 0.0
    assert adam.state()["second.w"].item() == pytest.approx(second)
    other = Adam({"w": torch.zeros(1)})
    other.load(adam.state())
    assert other.state()["second.w"].item() == pytest.approx(second)
    half = Adam({"w": torch.zeros(1, dtype=torch.bfloat16)}).state()
    assert {tensor.dtype for tensor in half.values()} == {torch.float32}
    default = Adam({"w": torch.zeros(1)})
    assert (default._betas, default._eps, default._decay) == ((0.9, 0.999), 1e-6, [0.01])
