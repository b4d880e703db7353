"""A training that ended, was stopped or killed, and the same command again."""

import contextlib
import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from stopped_training import stopped_at

from raypipe.driver import execute
from raypipe.errors import InputError, Interrupted
from raypipe.storage.ledger import Ledger
from raypipe.training.steps import Updates


@pytest.mark.slow
def test_a_finished_training_does_not_run_again(small_recipe, weights, train, tmp_path):
    recipe = small_recipe()
    first = train(recipe, tmp_path / "out")
    before = weights(tmp_path / "out")
    log = tmp_path / "out" / "train" / "progress.jsonl"
    number = len(log.read_text().splitlines())
    again = train(recipe, tmp_path / "out")
    assert len(log.read_text().splitlines()) == number
    assert again.summary["fingerprint"] == first.summary["fingerprint"]
    assert_same_bytes(before, weights(tmp_path / "out"))
    other = train(recipe, tmp_path / "out", "seed=1")
    assert other.summary["fingerprint"] != first.summary["fingerprint"]


@pytest.mark.slow
@pytest.mark.fault(43, "stopped in step 1, 4 or 7: the same weights, bit for bit")
@pytest.mark.parametrize(
    ("after", "settings"),
    [(1, {}), (4, {}), (7, {}), (6, {"resources": {"threads": 2}, "batch": 24})],
)
def test_an_interrupted_training_ends_with_the_undisturbed_weights(
    small_recipe, weights, train, tmp_path, monkeypatch, after, settings
):
    recipe = small_recipe(**settings)
    train(recipe, tmp_path / "calm")
    with stopped_at(monkeypatch, after), pytest.raises(Interrupted):
        train(recipe, tmp_path / "cut")
    train(recipe, tmp_path / "cut")
    assert_same_bytes(weights(tmp_path / "calm"), weights(tmp_path / "cut"))


@pytest.mark.slow
@pytest.mark.fault(43, "killed 3 times: the same weights, bit for bit")
def test_a_training_killed_at_any_moment_ends_with_the_undisturbed_weights(
    small_recipe, weights, train, tmp_path
):
    recipe = small_recipe(steps=40, validate={"every": 10}, checkpoint_every=5)
    train(recipe, tmp_path / "calm")
    command = [
        sys.executable,
        "-m",
        "raypipe",
        "train",
        str(recipe),
        "--out",
        str(tmp_path / "cut"),
    ]
    codes = []
    for number in range(3):
        before = checkpoints(tmp_path / "cut")
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None:
            if checkpoints(tmp_path / "cut") - before:
                time.sleep(0.02 * number)
                child.kill()
                break
            time.sleep(0.005)
        codes.append(child.wait())
    assert codes == [-signal.SIGKILL] * 3, "each while it trained"
    train(recipe, tmp_path / "cut")
    assert_same_bytes(weights(tmp_path / "calm"), weights(tmp_path / "cut"))


def checkpoints(out):
    """Names of the records of checkpoints that are there now; the job prunes the older ones."""
    try:
        return {p.name for p in (out / "stores" / "weights@small").glob("*/steps/*.json")}
    except FileNotFoundError:
        return set()


def test_a_training_ends_early_when_measurements_no_longer_rise(small_recipe, train, tmp_path):
    path = small_recipe(
        steps=40,
        optimiser={"rate": 1e-12, "warmup": 0, "decay": "constant"},
        validate={"every": 2, "patience": 3},
    )
    trained = train(path, tmp_path / "out")
    assert not checkpoints(tmp_path / "out")
    # Nothing changes at that rate: the first measurement is the best, three more end it.
    assert [each["step"] for each in trained.summary["history"]] == [2, 4, 6, 8]
    assert trained.summary["step"] == 2


@pytest.mark.slow
def test_a_checkpoint_that_was_not_measured_is_measured_when_the_training_goes_on(
    small_recipe, weights, train, tmp_path, monkeypatch
):
    from raypipe.training.validate import DevMeasures

    path = small_recipe(checkpoint_every=5, validate={"every": 4})
    calm = train(path, tmp_path / "calm").summary
    real = DevMeasures.values

    def killed(self, trainee, comm):
        raise KeyboardInterrupt

    for _ in calm["history"]:  # each invocation dies while it measures, the first one too
        monkeypatch.setattr(DevMeasures, "values", killed)
        with pytest.raises(KeyboardInterrupt):
            train(path, tmp_path / "cut")
        monkeypatch.setattr(DevMeasures, "values", real)
        once = iter([real])
        monkeypatch.setattr(
            DevMeasures, "values", lambda *given, once=once: next(once, killed)(*given)
        )
        with contextlib.suppress(KeyboardInterrupt):
            train(path, tmp_path / "cut")
    monkeypatch.undo()
    found = train(path, tmp_path / "cut").summary
    assert (found["history"], found["step"]) == (calm["history"], calm["step"])
    assert_same_bytes(weights(tmp_path / "calm"), weights(tmp_path / "cut"))


def test_a_checkpoint_that_was_removed_before_it_was_measured_is_told(
    small_recipe, train, tmp_path, monkeypatch
):
    path = small_recipe(checkpoint_every=1, validate={"every": 4})
    with stopped_at(monkeypatch, 7), pytest.raises(Interrupted):
        train(path, tmp_path / "out")
    for part in ("steps", "measurements"):
        (record,) = (tmp_path / "out" / "stores" / "weights@small").glob(f"*/{part}/0000004.json")
        record.unlink()
    with pytest.raises(InputError, match="1 steps, first 4, have neither been measured nor kept"):
        train(path, tmp_path / "out")


def test_a_measurement_whose_line_was_lost_stands_in_the_curves_all_the_same(
    small_recipe, train, tmp_path, monkeypatch
):
    path = small_recipe()
    with stopped_at(monkeypatch, 6), pytest.raises(Interrupted):
        train(path, tmp_path / "out")
    (log,) = (tmp_path / "out" / "stores" / "weights@small").glob("*/progress.jsonl")
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if '"mean"' not in line))
    train(path, tmp_path / "out")
    told = (tmp_path / "out" / "train" / "progress.jsonl").read_text().splitlines()
    measured = [event for event in map(json.loads, told) if "mean" in event]
    assert [event["step"] for event in measured] == [0, 4, 8, 12]
    assert "loss" in json.loads(told[1])


@pytest.mark.slow
def test_weights_that_another_invocation_published_meanwhile_are_not_trained_again(
    small_recipe, train, weights, tmp_path, monkeypatch
):
    """It had the lease while this invocation, which had found no weights, waited for it."""
    path, out, real = small_recipe(), tmp_path / "out", execute.complete_store

    def too_early(workspace, store, spec):
        return None if store.startswith("weights@") else real(workspace, store, spec)

    summary, before = train(path, out).summary, weights(out)
    monkeypatch.setattr(execute, "complete_store", too_early)
    monkeypatch.setattr(Updates, "step", lambda *given: pytest.fail("it trains again"))
    assert train(path, out).summary["history"] == summary["history"]
    assert_same_bytes(before, weights(out))


@pytest.mark.slow
def test_weights_that_were_committed_before_a_kill_are_published_and_leave_no_checkpoint(
    small_recipe, train, tmp_path, monkeypatch
):
    path, out, real = small_recipe(), tmp_path / "out", Ledger.publish

    def killed(ledger, *given, **named):
        if ledger.store.startswith("weights@"):
            raise KeyboardInterrupt
        return real(ledger, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            train(path, out)
    assert list(out.glob("stores/weights@*/*/steps/*"))
    monkeypatch.setattr(Updates, "step", lambda *given: pytest.fail("it trains again"))
    assert train(path, out).summary["step"]
    assert not list(out.glob("stores/weights@*/*/steps/*"))


def assert_same_bytes(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name
