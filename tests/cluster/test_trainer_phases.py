"""Phases on Ray: a worker and the driver are killed within them and between them."""

import os
import signal
import time

import pytest
from chain_training import MODELS, STORES, chain_recipe
from killed_trainings import attempts, files, found, log_of, start, training_workers

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(2400)]


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

    driver = begun(recipe, cut, f"{pretraining}/*/steps/*.json")
    worker_killed(driver, cut, pretraining)
    awaited(driver, cut, f"{pretraining}/*/manifest.json", set())
    killed(driver)  # between two phases

    killed(begun(recipe, cut, f"{mono}/*/steps/*.json"))
    killed(begun(recipe, cut, f"{mono}/*/manifest.json"))

    driver = begun(recipe, cut, f"{duo}/*/steps/*.json")
    worker_killed(driver, cut, duo)
    assert driver.wait() == 0, log_of(cut)

    assert len(files(calm / "models")) == 4 * len(MODELS)
    assert files(cut / "models") == files(calm / "models")
    told = {store: {e["process"]["pid"] for e in attempts(cut, store) if "process" in e}
            for store in STORES}  # fmt: skip
    assert all(len(pids) >= 2 for pids in told.values()), "each phase had a second worker"


def begun(recipe, out, pattern):
    """A driver that has just written a new file of that form.

    A machine with much else to do may take longer for Ray than Ray waits; then it is started again.
    """
    before = found(out, pattern)
    for _ in range(5):
        driver = start(recipe, out, "resources.backend=ray")
        if awaited(driver, out, pattern, before):
            return driver
        assert driver.returncode == 3 and "Ray did not start" in log_of(out), log_of(out)
    raise AssertionError(log_of(out))


def awaited(driver, out, pattern, before):
    """Whether the living driver wrote a file of that form that was not there before."""
    while driver.poll() is None:
        if found(out, pattern) - before:
            return True
        time.sleep(0.005)
    return False


def worker_killed(driver, out, store):
    """Kill the training's worker, and see that it was training."""
    (worker,) = training_workers(driver)
    os.kill(worker.pid, signal.SIGKILL)
    assert not found(out, f"{store}/*/manifest.json"), "the phase had ended"


def killed(driver):
    """Kill the driver."""
    assert driver.poll() is None
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
