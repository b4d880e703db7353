"""What a step of a pre-training is made of: its inputs, their masks and its dropout."""

from types import SimpleNamespace

import numpy as np
import pytest
from masked_texts import text_source

from raypipe.training import pretrain as updates
from raypipe.training.comm import Comm
from raypipe.training.examples import Sampler
from raypipe.training.pretrain import PretrainingUpdates, trained

COUNTS = [20, 35, 7, 50, 18, 90, 2, 40]


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
