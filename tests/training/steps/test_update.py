import json
import math
from types import SimpleNamespace

import pytest
import torch

from raypipe.config.training import Optimiser
from raypipe.errors import InputError
from raypipe.training import steps as update
from raypipe.training.comm import Comm
from raypipe.training.examples import Sampler
from raypipe.training.steps import load_weights_


def test_weights_are_set_in_place():
    weights = {"a": torch.zeros(2), "b": torch.zeros(1)}
    load_weights_(
        SimpleNamespace(weights=weights),
        {"weight.a": torch.tensor([1.0, 2.0]), "weight.b": torch.tensor([3.0]), "first.a": None},
    )
    assert weights["a"].tolist() == [1.0, 2.0] and weights["b"].tolist() == [3.0]


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (1.0, math.inf), (-math.inf, 1.0)])
def test_a_loss_or_norm_that_is_not_finite_ends_the_training(loss, norm):
    update._check(0, 1.0, 1.0, 0.1)
    with pytest.raises(InputError, match=r"^step 8: the loss is .*\(it is 0\.1\)"):
        update._check(7, loss, norm, 0.1)


@pytest.fixture
def triples(small_recipe, small_files, tmp_path):
    """A recipe of triples, of which nothing is drawn: the seed orders them and no more."""
    queries = (small_files / "queries.train.tsv").read_text().splitlines()
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    path = tmp_path / "triples.tsv"
    rows = [
        f"{query.split(chr(9))[0]}\t{ids[n]}\t{ids[n + 1]}\n" for n, query in enumerate(queries)
    ]
    path.write_text("".join(rows))
    own = {
        "collection": "docs",
        "queries": str(small_files / "queries.train.tsv"),
        "triples": str(path),
    }
    return small_recipe(
        train={"docs": own},
        steps=4,
        dropout=0.0,
        optimiser={"warmup": 1},
        validate={"every": 4},
    )


def test_the_recipes_seed_orders_the_examples(triples, train, tmp_path, monkeypatch):
    seen: list[list[int]] = []
    read_batch, sizes = update.read_batch, []

    def noted(sources, places):
        seen.append(places.tolist())
        sizes.append(sum(source.examples.num_examples for source in sources))
        return read_batch(sources, places)

    monkeypatch.setattr(update, "read_batch", noted)
    for seed in (3, 4):
        seen.clear()
        train(triples, tmp_path / str(seed), f"seed={seed}")
        expected = Sampler(sizes[0], 8, seed)
        assert seen == [expected.batch(step).tolist() for step in range(4)]


def test_every_setting_of_the_recipes_optimiser_reaches_it():
    settings = Optimiser(beta1=0.8, beta2=0.9, eps=0.1, weight_decay=0.5, bias_correction=True)
    weights = {"w.weight": torch.tensor([[1.0]])}
    job = SimpleNamespace(recipe=SimpleNamespace(optimiser=settings))
    optimiser = update._optimiser(job, SimpleNamespace(weights=weights))
    optimiser.step([torch.tensor([[0.2]])], rate=0.1, number=1)
    optimiser.step([torch.tensor([[0.4]])], rate=0.1, number=2)
    # Corrected moments: 0.2 and 0.04, then (0.032 + 0.08) / 0.36 and (0.0036 + 0.016) / 0.19.
    first = 1 - 0.1 * (0.2 / (0.2 + 0.1) + 0.5)
    change = (0.112 / 0.36) / (math.sqrt(0.0196 / 0.19) + 0.1)
    expected = first - 0.1 * (change + 0.5 * first)
    assert weights["w.weight"].item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("after", ["step", "batch"])
def test_the_gradients_are_clipped_after_each_step_or_each_batch(
    after, small_recipe, train, tmp_path, monkeypatch
):
    raw, given = [], []
    backward, step = update.backward, update.Adam.step

    def noted(trainee, *rest, **settings):
        worked = backward(trainee, *rest, **settings)
        raw.append([weight.grad.clone() for weight in trainee.weights.values()])
        return worked

    def stepped(self, gradients, **settings):
        given.append([gradient.clone() for gradient in gradients])
        step(self, gradients, **settings)

    monkeypatch.setattr(update, "backward", noted)
    monkeypatch.setattr(update.Adam, "step", stepped)
    optimiser = {"rate": 1.0e-3, "warmup": 0, "clip": 0.01, "clip_after": after}
    path = small_recipe(
        steps=1, batch=4, accumulation=2, optimiser=optimiser, validate=None, dev={"docs": None}
    )
    train(path, tmp_path / "out")
    first, second = raw
    if after == "step":  # the second batch's gradients were added to the first one's
        expected = [torch.nn.Parameter(torch.zeros_like(each)) for each in second]
        for parameter, gradient in zip(expected, second, strict=True):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(expected, 0.01)
    else:
        expected = [torch.nn.Parameter(torch.zeros_like(each)) for each in first]
        for parameter, gradient in zip(expected, first, strict=True):
            parameter.grad = gradient
        assert torch.nn.utils.clip_grad_norm_(expected, 0.01) > 0.01
        for parameter, gradient in zip(expected, second, strict=True):
            parameter.grad += gradient
        assert torch.nn.utils.clip_grad_norm_(expected, 0.01) > 0.01
    for found, parameter in zip(given[0], expected, strict=True):
        torch.testing.assert_close(found, parameter.grad, rtol=1e-5, atol=1e-8)


def test_a_rate_falls_towards_the_schedules_last_step(triples, train, tmp_path):
    train(triples, tmp_path / "out", "schedule_steps=9")
    lines = (tmp_path / "out" / "train" / "progress.jsonl").read_text().splitlines()
    rates = [json.loads(line)["rate"] for line in lines if "rate" in line]
    # One step of warm-up, then from the peak at step 1 to 0 at step 9.
    assert rates == pytest.approx([0.0, 1e-3, 1e-3 * 7 / 8, 1e-3 * 6 / 8])


@pytest.mark.parametrize("after", ["step", "batch"])
def test_an_update_has_the_gradients_losses_and_tokens_of_all_workers(
    after, small_recipe, train, tmp_path, monkeypatch
):
    """The other worker has the same examples, so that each sum is twice what one has."""
    optimiser = {"warmup": 0, "clip": 0, "clip_after": after}
    path = small_recipe(
        steps=1, batch=4, accumulation=2, optimiser=optimiser, validate=None, dev={"docs": None}
    )
    told = {}
    for out in ("alone", "both"):
        train(path, tmp_path / out)
        lines = (tmp_path / out / "train" / "progress.jsonl").read_text().splitlines()
        (told[out],) = (line for line in map(json.loads, lines) if "rate" in line)
        monkeypatch.setattr(Comm, "sum_", lambda self, tensors: [each.mul_(2) for each in tensors])
    for name in ("loss", "gradient_norm", "tokens"):
        assert told["both"][name] == pytest.approx(2 * told["alone"][name], rel=1e-5), name
