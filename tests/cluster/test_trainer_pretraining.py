"""A pre-training on several of Ray Train's workers: what other trainings promise there."""

import os
import signal
import time

import pytest
import torch
from killed_trainings import (
    attempts,
    history,
    log_of,
    losses,
    prepared,
    start,
    steps,
    training_workers,
    weights,
)
from masked_texts import make_pretrained
from small_training import Recipes, without_queries

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(1800)]

STEPS = 24
TWO = "resources.workers=2"


@pytest.fixture(scope="module")
def recipe(tiny, small_files, tiny_model, tmp_path_factory):
    """Masked words and next sentences without dropout, from a checkpoint with both heads."""
    folder = tmp_path_factory.mktemp("train")
    make_pretrained(tiny, folder / "pretrained")
    model = {"start": str(folder / "pretrained"), "preset": "bert", "total_limit": 48}
    path = Recipes(small_files, tiny_model, folder).write(
        model={**model, "query_limit": None},
        loss={"name": "masked-language-model"},
        masking={"next_sentence": True, "held_out": 6},
        steps=STEPS,
        dropout=0.0,
        optimiser={"rate": 3.0e-4, "warmup": 4},
        checkpoint_every=4,
        validate={"every": STEPS // 2, "measure": "masked_word_loss"},
        resources={"backend": "ray", "threads": 1},
    )
    return without_queries(path)


@pytest.fixture(scope="module")
def one(recipe, tmp_path_factory):
    """What one worker trains without Ray."""
    out = tmp_path_factory.mktemp("one") / "out"
    assert start(recipe, out, "resources.backend=inline").wait() == 0, log_of(out)
    return out


@pytest.fixture(scope="module")
def calm(recipe, one, tmp_path_factory):
    """What two workers train, undisturbed."""
    out = prepared(tmp_path_factory.mktemp("calm") / "out", one)
    assert start(recipe, out, TWO).wait() == 0, log_of(out)
    return out


def test_two_workers_follow_one(one, calm):
    assert len(losses(calm)) == STEPS
    assert losses(calm) == pytest.approx(losses(one), abs=1e-4)
    expected, found = weights(one), weights(calm)
    assert expected.keys() == found.keys()
    assert max((found[name] - expected[name]).abs().max().item() for name in expected) < 1e-4
    measured = [[each["mean"] for each in history(out)] for out in (calm, one)]
    assert measured[0] == pytest.approx(measured[1], abs=1e-4)


@pytest.mark.fault(
    43, "pre-training, 1 of 2 workers killed, then the driver: the same weights, bit for bit"
)
def test_a_killed_worker_and_a_killed_driver_change_no_bit(recipe, one, calm, tmp_path):
    cut = prepared(tmp_path / "cut", one)
    driver = start(recipe, cut, TWO)
    while steps(cut) < 1 and driver.poll() is None:
        time.sleep(0.02)
    victims = training_workers(driver)
    assert len(victims) == 2, log_of(cut)
    os.kill(victims[1].pid, signal.SIGKILL)
    gone = set(victims)
    while driver.poll() is None and not (set(training_workers(driver)) - gone and steps(cut) >= 2):
        time.sleep(0.02)
    assert driver.poll() is None, log_of(cut)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    driver = start(recipe, cut, TWO)
    assert driver.wait() == 0, log_of(cut)
    assert len({told["process"]["pid"] for told in attempts(cut) if "process" in told}) >= 6
    assert history(cut) == history(calm)
    for name, tensor in weights(calm).items():
        assert torch.equal(tensor, weights(cut)[name]), name
