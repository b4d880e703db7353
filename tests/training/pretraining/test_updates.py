"""The gradient of a batch, however it is divided."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from masked_texts import make_pretrained, text_source, trainee_and_maker

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.training import pretrain as updates
from raypipe.training.comm import Comm
from raypipe.training.examples import Sampler
from raypipe.training.pretrain import (
    Chosen,
    PretrainingUpdates,
    TextSource,
    backward,
    measured_losses,
    rule_of,
    trained,
)

COUNTS = [20, 35, 7, 50, 18, 90, 2, 40]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("updates") / "model"
    make_pretrained(tiny, folder)
    return folder


@dataclass
class Of:
    """One of several workers, whose sums are added up by hand."""

    rank: int
    world: int
    sums: list = field(default_factory=list)

    def sum_(self, tensors):
        self.sums.append([tensor.clone() for tensor in tensors])


def gradients(folder, comm, *, budget=4096, dropout=0.0, draw=(0, 0)):
    trainee, maker = trainee_and_maker(folder, COUNTS, next_sentence=True, dropout=dropout)
    places = np.arange(maker.sources[0].table.num_stretches)
    batch = maker.batch(Chosen(np.zeros(len(places), np.int64), places), 3)
    worked = backward(trainee, batch, comm, budget_tokens=budget, draw=draw)
    found = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad
        for name, weight in trainee.weights.items()
    }
    return found, float(worked.loss)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_shares_of_several_workers_add_up_to_the_whole(folder, workers):
    whole, loss = gradients(folder, Comm())
    shares = [gradients(folder, Of(rank, workers)) for rank in range(workers)]
    assert sum(each for _, each in shares) == pytest.approx(loss, abs=1e-5)
    for name, gradient in whole.items():
        summed = sum(own[name] for own, _ in shares)
        assert (summed - gradient).abs().max() < 1e-5, name


def test_smaller_forward_passes_give_the_same_gradient(folder):
    whole, loss = gradients(folder, Comm())
    parts, again = gradients(folder, Comm(), budget=40)
    assert again == pytest.approx(loss, abs=1e-5)
    assert all((parts[name] - whole[name]).abs().max() < 1e-5 for name in whole)


def test_dropout_is_drawn_by_step_worker_and_pass(folder, monkeypatch):
    seeded = []
    real = updates.seed_dropout
    monkeypatch.setattr(updates, "seed_dropout", lambda *draw: seeded.append(draw) or real(*draw))

    def drawn(draw, rank=0):
        return gradients(folder, Of(rank, 2), dropout=0.3, draw=draw, budget=64)[1]

    assert drawn((0, 1)) == drawn((0, 1)) != drawn((0, 2))
    seeded.clear()
    drawn((7, 3), rank=1)
    assert len(seeded) > 2 and seeded == [(7, 3, 1, number) for number in range(len(seeded))]


def test_held_out_losses_are_those_of_the_whole_on_any_number_of_workers(folder):
    trainee, maker = trainee_and_maker(folder, COUNTS, next_sentence=False)
    source = maker.sources[0]
    held = TextSource(source.table, source.tokens, 5, source.seed)
    maker = type(maker)(
        [held], maker.layouts, maker.rule, maker.next_sentence, maker.total_limit, maker.seed
    )
    (alone,) = measured_losses(trainee, maker, Comm())
    batch = maker.batch(Chosen(np.zeros(5, np.int64), np.arange(5)), 0)
    _, expected = 0, backward(trainee, batch, Comm(), budget_tokens=4096, draw=(0,)).loss
    assert alone == pytest.approx(float(expected), abs=1e-6)
    workers = [Of(rank, 2) for rank in range(2)]
    for worker in workers:
        measured_losses(trainee, maker, worker)
    summed = workers[0].sums[0][0] + workers[1].sums[0][0]
    assert float(summed.sum()) / batch.num_words == alone


def test_a_tokenizer_without_mask_is_refused(folder):
    class Job:
        start = resolve_model(str(folder))

    _, maker = trainee_and_maker(folder, COUNTS, next_sentence=False)
    rule = rule_of(Job, maker.layouts, 0.2)
    assert (rule.share, rule.mask_id, rule.num_words, rule.special_ids) == (0.2, 4, 66, (2, 3))
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("[MASK]", "[OTHER]"))
    Job.start = resolve_model(str(folder))
    with pytest.raises(InputError, match=r"the tokenizer has no \[MASK\]"):
        rule_of(Job, maker.layouts, 0.2)


@pytest.fixture
def opened(monkeypatch):
    """The updates of a training with two held-out inputs, and what each batch was made of."""
    recipe = SimpleNamespace(batch=3, accumulation=2, seed=7)
    sources = [text_source(COUNTS, held_out=2)]
    made = []

    def batch(chosen, step):
        made.append((chosen.places.tolist(), step))
        return "the batch"

    maker = SimpleNamespace(sources=sources, batch=batch)
    monkeypatch.setattr(updates, "maker_of", lambda job: maker)
    found = object.__new__(PretrainingUpdates)
    found._job, found._comm = SimpleNamespace(recipe=recipe), Comm()
    found.trainee, found.budget = "the trainee", 64
    found._open()
    return found, sources, made


def test_a_step_has_the_next_trained_inputs_masked_by_its_number_from_1(opened, monkeypatch):
    found, sources, made = opened
    given = []
    monkeypatch.setattr(updates, "backward", lambda *told, **named: given.append((told, named)))
    for number in (0, 1, 5):
        found._backward(number, 0)
    sampler = Sampler(sources[0].num_trained, 6, 7)
    places = [trained(sources, sampler.batch(number)).places.tolist() for number in (0, 1, 5)]
    assert made == list(zip(places, (1, 2, 6), strict=True))
    assert all(len(each) == 6 and min(each) >= 2 for each in places)
    assert [named["draw"] for _, named in given] == [(7, 0), (7, 1), (7, 5)]
    told, named = given[0]
    assert told == ("the trainee", "the batch", found._comm) and named["budget_tokens"] == 64


def test_all_inputs_of_a_step_are_one_batch_and_an_epoch_has_each_trained_one_once(opened):
    found, sources, _ = opened
    assert found._num_parts() == 1
    size = sources[0].num_trained
    assert size == sources[0].table.num_stretches - 2
    drawn = np.concatenate([found._sampler.batch(number) for number in range(size)])
    assert len(drawn) == 6 * size
    assert sorted(drawn[:size].tolist()) == list(range(size))
