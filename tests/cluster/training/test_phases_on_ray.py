"""Phases on Ray: a worker and the driver are killed within them and between them."""

import os
import signal
import time

import pytest
from chain_training import MODELS, STORES, chain_recipe
from killed_trainings import attempts, files, found, log_of, start, steps, training_workers

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(2400)]

ON_RAY = "resources.backend=ray"


@pytest.fixture(scope="module")
def recipe(tiny, small_files, tiny_model, tmp_path_factory):
    return chain_recipe(tiny, small_files, tiny_model, tmp_path_factory.mktemp("chain"))


@pytest.fixture(scope="module")
def calm(recipe, tmp_path_factory):
    """What the chain leaves without Ray, undisturbed."""
    out = tmp_path_factory.mktemp("calm") / "out"
    assert start(recipe, out).wait() == 0, log_of(out)
    return out


@pytest.mark.fault(
    43,
    "phases on Ray: 2 workers and 3 drivers killed within and between them, the files of models of "
    "a calm chain without Ray",
)
def test_phases_killed_on_ray_leave_the_models_of_a_calm_chain_without_it(recipe, calm, tmp_path):
    cut = tmp_path / "cut"
    pretraining, mono, duo = STORES

    driver = start(recipe, cut, ON_RAY)
    worker_killed(driver, cut, pretraining)
    driver_killed(driver, cut, f"{pretraining}/*/manifest.json")  # between two phases

    driver = start(recipe, cut, ON_RAY)
    driver_killed(driver, cut, f"{mono}/*/steps/*.json")

    driver = start(recipe, cut, ON_RAY)
    driver_killed(driver, cut, f"{mono}/*/manifest.json")

    driver = start(recipe, cut, ON_RAY)
    worker_killed(driver, cut, duo)
    assert driver.wait() == 0, log_of(cut)

    assert len(files(calm / "models")) == 4 * len(MODELS)
    assert files(cut / "models") == files(calm / "models")
    told = {store: {e["process"]["pid"] for e in attempts(cut, store) if "process" in e}
            for store in STORES}  # fmt: skip
    assert all(len(pids) >= 2 for pids in told.values()), "each phase had a second worker"


def worker_killed(driver, out, store):
    """Kill the training's worker when it has saved a checkpoint, and see that it was training."""
    while not steps(out, store) and driver.poll() is None:
        time.sleep(0.005)
    (worker,) = training_workers(driver)
    os.kill(worker.pid, signal.SIGKILL)
    assert not found(out, f"{store}/*/manifest.json"), "the phase had ended"


def driver_killed(driver, out, awaited):
    """Kill the driver when there is a new file of that form."""
    before = found(out, awaited)
    while driver.poll() is None and not found(out, awaited) - before:
        time.sleep(0.005)
    assert driver.poll() is None, log_of(out)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
