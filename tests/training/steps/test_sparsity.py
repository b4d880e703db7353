"""FLOPS and L1 are of all texts of a step, however workers and batches divide them."""

import json
import subprocess
import sys
from pathlib import Path

import gradients
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sparse_gradients import assert_equal, gradients_of, plain
from sparse_models import make_splade
from stage_inputs import parts_of

from raypipe.config.training import Loss, Sparsity
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder
from raypipe.training.comm import Comm
from raypipe.training.sparsity import Penalty, growth, penalty_of
from raypipe.training.steps import word_sums

LIMITS = {"query_limit": 12, "passage_limit": 40, "total_limit": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_splade(tmp_path_factory.mktemp("models") / "splade")


def test_the_penalty_by_hand():
    """Mean weights of three words: 1, 2, 0 of queries and 0.5, 0, 3 of passages."""
    means = torch.tensor([[1.0, 2.0, 0.0], [0.5, 0.0, 3.0]])
    assert Penalty((1.0, 0.0), (0.0, 0.0)).of_means(means).item() == 1 + 4
    assert Penalty((0.0, 1.0), (0.0, 0.0)).of_means(means).item() == 0.25 + 9
    assert Penalty((0.0, 0.0), (1.0, 0.0)).of_means(means).item() == 3
    assert Penalty((0.0, 0.0), (0.0, 1.0)).of_means(means).item() == 3.5
    every = Penalty((2.0, 4.0), (10.0, 100.0)).of_means(means)
    assert every.item() == 2 * 5 + 4 * 9.25 + 10 * 3 + 100 * 3.5


def test_a_weight_grows_with_the_square_of_the_step_until_the_end_of_its_warmup():
    assert [growth(number, 4) for number in range(6)] == [1 / 16, 4 / 16, 9 / 16, 1, 1, 1]
    assert growth(0, 0) == growth(0, 1) == 1
    loss = Loss(
        name="kl",
        flops=Sparsity(queries=8.0, passages=4.0, warmup=2),
        l1=Sparsity(queries=3.0, warmup=0),
    )
    assert penalty_of(loss, 0) == Penalty((2.0, 1.0), (3.0, 0.0))
    assert penalty_of(loss, 7) == Penalty((8.0, 4.0), (3.0, 0.0))
    assert penalty_of(Loss(name="kl", flops=loss.flops), 1) == Penalty((8.0, 4.0), (0.0, 0.0))
    assert penalty_of(Loss(name="kl"), 0) is None


def equation(queries, passages, penalty):
    """By the equations, from the weights of all texts."""
    found = torch.zeros(())
    for side, weights in enumerate((queries, passages)):
        found = found + penalty.flops[side] * (weights.mean(dim=0) ** 2).sum()
        found = found + penalty.l1[side] * weights.abs().sum(dim=1).mean()
    return found


def test_the_gradient_is_autograds_over_transformers_weights(folder):
    penalty = gradients.PENALTY
    batch = gradients.make_batch(num_examples=5, num_passages=3)

    def found(**given):
        trainee, layouts = gradients.make_trainee(folder, "splade-nce")
        return gradients.gradients(trainee, layouts, "splade-nce", Comm(), batch=batch, **given)

    (without, plain_gradient), (loss, whole) = found(), found(penalty=penalty)
    layouts = gradients.make_trainee(folder, "splade-nce")[1]
    model, queries, passages = plain(folder, layouts, batch)
    expected = equation(queries, passages, penalty)
    expected.backward()
    assert (loss - without).item() == pytest.approx(expected.item(), rel=1e-4)
    theirs = gradients_of(model)
    assert_equal({name: whole[name] - plain_gradient[name] for name in theirs}, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.long)])
def test_several_workers_give_the_gradient_of_one(folder, tmp_path, world):
    """13 examples: shares of 7 and 6, or of 4, 3, 3 and 3."""
    script = Path(gradients.__file__)
    command = [sys.executable, str(script), str(tmp_path), str(folder), ",".join(gradients.SPARSE)]
    workers = [subprocess.Popen([*command, str(rank), str(world), "200"]) for rank in range(world)]
    assert [worker.wait() for worker in workers] == [0] * world
    found = load_file(tmp_path / f"gradients-{world}.safetensors")
    for kind in gradients.SPARSE:
        own = gradients.make_trainee(folder, kind)
        loss, expected = gradients.gradients(*own, kind, Comm(), penalty=gradients.PENALTY)
        of_kind = {
            n.removeprefix(f"{kind} "): g for n, g in found.items() if n.startswith(kind + " ")
        }
        assert of_kind.pop("loss").item() == pytest.approx(loss.item(), rel=1e-5)
        assert_equal(of_kind, expected)


def test_with_dropout_the_means_are_those_of_the_weights_that_are_learnt(folder):
    """The pass before a step's batches draws what its batches draw."""
    batch = gradients.make_batch(num_examples=5)

    def made():
        return gradients.make_trainee(folder, "splade", dropout=0.3)

    def sums(*draw):
        trainee, layouts = made()
        return word_sums(trainee, batch, Comm(), layouts, draw=draw)

    def gradient(means):
        penalty = Penalty((5.0, 3.0), (0.5, 0.25), means)
        return gradients.gradients(*made(), "splade", Comm(), batch=batch, penalty=penalty)

    counts = torch.tensor([5.0, 10.0])[:, None]
    own, other = gradient(None), gradient(sums(0, 0) / counts)
    assert own[0].item() == other[0].item()
    assert all(torch.equal(own[1][name], other[1][name]) for name in own[1])
    assert not torch.equal(sums(0, 0), sums(0, 1)) and not sums(0, 0).requires_grad


@pytest.fixture
def trained(small_recipe, folder, train, weights, tmp_path):
    """A function that trains from lists alone; the losses of its steps and the weights."""

    def run(name, **changed):
        model = {"start": str(folder), "preset": "splade", **LIMITS}
        settings = {"dropout": 0.0, "steps": 4, "validate": None, "dev": {"docs": None}}
        loss = {"name": "pairwise-hinge", **changed.pop("loss", {})}
        path = small_recipe(name, **{"model": model, **settings, "loss": loss, **changed})
        train(path, tmp_path / name)
        lines = (tmp_path / name / "train" / "progress.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines], weights(tmp_path / name)

    return run


SPREAD = {
    "flops": {"queries": 0.5, "passages": 0.3, "warmup": 2},
    "l1": {"queries": 0.1, "warmup": 0},
}


@pytest.mark.slow
def test_batches_of_a_step_are_one_larger_batch(trained):
    """Of the mean over each batch alone, another penalty: FLOPS squares it."""
    one = trained("one", batch=8, loss=SPREAD)
    two = trained("two", batch=4, accumulation=2, loss=SPREAD)
    assert two[0] == pytest.approx(one[0], rel=1e-5)
    for name, tensor in one[1].items():
        assert (two[1][name] - tensor).abs().max() < 1e-4, name


@pytest.mark.slow
def test_a_penalty_leaves_fewer_words_in_each_text(trained, tmp_path):
    settings = {"steps": 20, "optimiser": {"rate": 1.0e-3, "warmup": 2}}
    trained("free", **settings)
    flops = {"queries": 0.1, "passages": 0.1, "warmup": 10}
    trained("pressed", **settings, loss={"flops": flops})

    def words(name):
        model = resolve_model(str(tmp_path / name / "models" / "small"))
        (text,) = parts_of(model, ["lease shard rank", "a query of a passage", "zebra run"])
        offsets = np.concatenate([[0], np.cumsum(text.counts)])
        return (load_encoder(model).encode(text.flat, offsets, side="passage") > 0.005).sum()

    assert 0 < words("pressed") < 0.75 * words("free")
