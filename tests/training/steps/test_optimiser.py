"""Adam with decoupled decay: torch's own where its settings are, by hand where BERT's are."""

import math

import pytest
import torch
import transformers
from drawn_models import DISTILBERT, PACKED, SIZES

from raypipe.training.steps import Adam, clip_, decays, learning_rate


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


@pytest.mark.parametrize("kind", ["bert", *PACKED])
def test_what_decays_in_transformers_decays_by_whatever_name_a_normalisation_has(kind):
    small = {"vocab_size": 9, **(DISTILBERT if kind == "distilbert" else SIZES)}
    config = transformers.AutoConfig.for_model(kind, **small, pad_token_id=0)
    for head in ("SequenceClassification", "MaskedLM"):
        model = getattr(transformers, f"AutoModelFor{head}").from_config(config)
        theirs = transformers.Trainer.get_decay_parameter_names(None, model)
        names = {name for name, _ in model.named_parameters()}
        assert {name for name in names if decays(name)} == names.intersection(theirs)


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


def test_the_norm_of_a_table_of_word_embeddings_is_right_to_a_millionth():
    """In one fp32 sum it is 1% off."""
    table = torch.full((30000, 768), 0.1)
    assert clip_([table, torch.zeros(4)], 0.0) == pytest.approx(480.0, rel=1e-6)


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
