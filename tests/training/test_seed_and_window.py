"""What a training draws and in which order: its seed, the window's ends, the optimiser's eps."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from raypipe.config.training.recipe import Optimiser
from raypipe.training.examples.draw import Short, Window, drawn_examples
from raypipe.training.examples.rankings import Ranking
from raypipe.training.examples.sampler import Sampler
from raypipe.training.steps import update
from raypipe.training.steps.optimiser import Adam


def test_two_seeds_give_other_batches_of_the_same_examples():
    one, other = (Sampler(100, 10, seed=seed) for seed in (1, 2))
    taken = [np.concatenate([s.batch(step) for step in range(10)]) for s in (one, other)]
    assert sorted(taken[0].tolist()) == sorted(taken[1].tolist()) == list(range(100))
    assert (taken[0] != taken[1]).sum() > 80
    assert one.batch(0).tolist() == Sampler(100, 10, seed=1).batch(0).tolist()


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


RUN = Ranking(
    np.zeros(5, np.int32),
    np.array([5, 6, 7, 8, 9]),
    np.arange(1, 6, dtype=np.int32),
    np.array([5, 4, 3, 2, 1], np.float32),
)


@pytest.mark.parametrize(
    ("first", "last", "negatives"),
    [(1, 1, {5}), (4, 4, {8}), (5, 5, {9}), (2, 4, {6, 7, 8}), (4, 9, {8, 9}), (6, 9, set())],
)
def test_a_window_holds_its_first_and_its_last_rank_and_no_other(first, last, negatives):
    window = Window(first=first, last=last, per_example=1, examples=5)
    short = Short()
    found = drawn_examples({0: [1]}, {0: {1}}, [RUN], None, window, seed=0, short=short)
    assert set(found.passage_rows[:, 1].tolist()) == negatives
    assert found.num_examples == len(negatives) and short.without_negatives == 1 - (
        len(negatives) == 5
    )


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


def test_a_dev_measure_counts_the_candidates_below_the_first_k(
    small_recipe, small_files, train, tmp_path
):
    """The relevant passage at rank 15, the first 10 reordered: R@20 is 1, and R@10 is 0."""
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    queries = (small_files / "queries.dev.tsv").read_text().splitlines()
    lines, judged = [], []
    for number, query in enumerate(line.split("\t")[0] for line in queries):
        ranking = [ids[(number + place) % len(ids)] for place in range(20)]
        judged.append(f"{query} 0 {ranking[14]} 1\n")
        lines += [f"{query} Q0 {p} {r} {1 / r:.6f} made\n" for r, p in enumerate(ranking, 1)]
    (tmp_path / "dev.trec").write_text("".join(lines))
    (tmp_path / "qrels.txt").write_text("".join(judged))
    dev = {
        "collection": "docs",
        "queries": str(small_files / "queries.dev.tsv"),
        "qrels": str(tmp_path / "qrels.txt"),
        "run": str(tmp_path / "dev.trec"),
        "k": 10,
    }
    few = {"steps": 2, "optimiser": {"warmup": 1}, "dev": {"docs": dev}}
    for measure, expected in (("R@20", 1.0), ("R@10", 0.0)):
        path = small_recipe(**few, validate={"every": 2, "measure": measure})
        trained = train(path, tmp_path / measure.replace("@", "-"))
        assert [each["mean"] for each in trained.summary["history"]] == [expected]
