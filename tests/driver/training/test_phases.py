"""A training in phases: each begins from the best checkpoint of an earlier one."""

import contextlib
import json

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file
from small_training import phases_of
from stopped_training import stopped_at

from raypipe.config.load import load_training
from raypipe.driver.training import phases
from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError, Interrupted
from raypipe.models.folder.model_folder import load_weights, resolve_model
from raypipe.training.export import write_model

SHORT = {"steps": 4, "validate": {"every": 2}, "checkpoint_every": 1}


@pytest.fixture
def three(small_recipe):
    """A recipe of three phases; the last one trains another kind of model, from the second's."""
    duo = {"preset": "duobert", "passage_limit": 20}
    return phases_of(small_recipe(), SHORT, {**SHORT, "seed": 1}, {**SHORT, "model": duo})


@pytest.mark.slow
def test_a_phase_begins_from_the_best_checkpoint_of_the_one_before(
    small_recipe, train, weights, tmp_path
):
    """Two phases, and by hand two recipes of which the second starts from the first's model."""
    second = {"steps": 6, "validate": {"every": 2}, "seed": 3}
    trained = train(phases_of(small_recipe(), {}, second), tmp_path / "chain")
    first = train(small_recipe("first"), tmp_path / "first")
    assert first.summary["step"] < 12, "the best is not the last, so this can tell them apart"
    model = {"start": str(first.model)}
    by_hand = train(small_recipe("second", model=model, **second), tmp_path / "second")
    assert_equal(weights(tmp_path / "chain", "small.part-1"), weights(tmp_path / "first"))
    assert_equal(weights(tmp_path / "chain"), weights(tmp_path / "second"))
    assert trained.model == tmp_path / "chain" / "models" / "small"
    assert trained.summary["history"] == by_hand.summary["history"]
    told = trained.summary["phases"]
    assert told["part-1"]["history"] == first.summary["history"]
    own = json.loads((trained.model / "raypipe.json").read_text())
    assert own["made_by"]["phase"] == "part-2"
    assert own["start_weights_saw"].endswith("; then docs (small.part-1); then docs (small.part-2)")


@pytest.mark.slow
def test_a_whole_chain_is_kept_verified_and_not_trained_again(three, train, weights, tmp_path):
    out, said = tmp_path / "out", []
    trained = train(three, out, said=said)
    assert [line for line in said if line.startswith("phase ")] == [
        "phase part-1 (1 of 3)", "phase part-2 (2 of 3)", "phase part-3 (3 of 3)"
    ]  # fmt: skip
    names = {"weights@small.part-1", "weights@small.part-2", "weights@small.part-3"}
    workspace = open_workspace(out)
    assert {n: s["state"] for n, s in status(out).stores.items()} == dict.fromkeys(
        names, "complete"
    )
    assert verify(workspace) == []
    assert find_garbage(workspace, spared_seconds=0).stores == {}
    assert {p.name for p in (out / "models").iterdir()} == {"small", "small.part-1", "small.part-2"}
    table = (out / "table.md").read_text()
    assert [f"# small: part-{n}" in table for n in (1, 2, 3)] == [True] * 3
    before = weights(out)
    logs = {path: path.read_text() for path in out.glob("train/*/progress.jsonl")}
    assert len(logs) == 3
    (out / "models" / "small.part-1" / "model.safetensors").unlink()
    again = train(three, out)
    assert again.summary["fingerprint"] == trained.summary["fingerprint"]
    assert logs == {path: path.read_text() for path in out.glob("train/*/progress.jsonl")}
    assert_equal(before, weights(out))
    assert load_training(out / "recipe.yaml") == load_training(three)


@pytest.mark.slow
def test_a_phase_of_another_kind_takes_the_encoder_and_draws_its_head(three, train, tmp_path):
    """It begins after the first phase; with a rate of nearly 0 its model is what it began from."""
    still = "phases.2.optimiser={rate: 1.0e-30, warmup: 0, weight_decay: 0.0}"
    train(three, tmp_path / "out", still, "dropout=0.0", "phases.2.after=part-1")
    mono, duo = (
        load_file(tmp_path / "out" / "models" / name / "model.safetensors")
        for name in ("small.part-1", "small")
    )
    differ = {name for name in duo if not equal(duo[name], mono[name])}
    assert differ == {"classifier.weight", "classifier.bias", SEGMENTS}
    assert (duo[SEGMENTS][:2] == mono[SEGMENTS]).all()


SEGMENTS = "bert.embeddings.token_type_embeddings.weight"


@pytest.mark.slow
def test_a_chain_stopped_in_every_phase_and_between_them_ends_with_the_undisturbed_weights(
    three, train, weights, tmp_path, monkeypatch
):
    def killed(*given, **named):
        raise KeyboardInterrupt

    calm, cut = tmp_path / "calm", tmp_path / "cut"
    train(three, calm)
    for number in (1, 2, 3):
        with stopped_at(monkeypatch, 3), pytest.raises(Interrupted):  # in the phase
            train(three, cut)
        assert status(cut).stores[f"weights@small.part-{number}"]["state"] == "incomplete"
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("raypipe.driver.training.train.write_model", counting(number, killed))
            train(three, cut)  # its weights are committed, its model is not written
        assert len(status(cut).stores) == number
        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            patched.setattr(phases, "_part", counting(number + 1, killed, phases._part))
            train(three, cut)  # its model is written, the next phase has not begun
        assert len(status(cut).stores) == number
    for name in ("small", "small.part-1", "small.part-2"):
        assert_equal(weights(calm, name), weights(cut, name))


def counting(number, then, before=write_model):
    """A function that is `before` until its number-th call."""
    calls = []

    def call(*given, **named):
        calls.append(1)
        return (then if len(calls) == number else before)(*given, **named)

    return call


def test_epochs_are_as_many_steps_as_take_every_example(small_recipe, train, tmp_path):
    path = small_recipe(steps=None, epochs=0.1, optimiser={"warmup": 0}, validate={"every": 1})
    said = []
    trained = train(path, tmp_path / "out", said=said)
    (facts,) = trained.summary["examples"].values()
    steps = -(-facts["examples"] // 80)  # a tenth of them, in batches of 8
    assert trained.summary["history"][-1]["step"] == steps
    assert f"train: 0.1 epochs of {facts['examples']} examples: {steps} steps" in said
    same = small_recipe(steps=steps, optimiser={"warmup": 0}, validate={"every": 1})
    assert train(same, tmp_path / "out").summary["fingerprint"] == trained.summary["fingerprint"]
    with pytest.raises(InputError, match="validate.every: expected at most steps"):
        train(path, tmp_path / "long", "steps=", "epochs=0.1", "validate.every=1000")


def test_an_adapter_of_a_later_phase_says_what_both_were_trained_on(small_recipe, train, tmp_path):
    few = {"docs": {**yaml.safe_load(small_recipe().read_text())["train"]["docs"]}}
    few["docs"] |= {"examples_at_most": 5}
    path = phases_of(small_recipe(), SHORT, {**SHORT, "train": few})
    trained = train(path, tmp_path / "out", "model.adapter={rank: 2, alpha: 4.0}")
    models = tmp_path / "out" / "models"
    adapter = trained.model / "adapter"
    first, last = (
        np.load(f / "trained_on.npy") for f in (models / "small.part-1/adapter", adapter)
    )
    assert len(first) > 10 and set(first) <= set(last)
    told = json.loads((adapter / "raypipe.json").read_text())
    assert told["base"] == str(models / "small.part-1")
    merged, whole = (
        load_weights(resolve_model(str(adapter))),
        load_file(trained.model / "model.safetensors"),
    )
    for name, tensor in whole.items():
        assert (merged[name] - tensor).abs().max() < 2e-3, name  # half precision on disk


def equal(left, right):
    return left.shape == right.shape and bool((left == right).all())


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert equal(left[name], right[name]), name


def test_what_is_wrong_with_a_later_phase_is_told_before_any_training(
    small_recipe, train, tmp_path
):
    bad = {name: tmp_path / f"{name}.txt" for name in ("queries", "qrels")}
    for path in bad.values():
        path.write_text("no tab\n")
    body = yaml.safe_load(small_recipe().read_text())
    files = {name: str(path) for name, path in bad.items()}
    second = {**SHORT, "train": {"docs": {**body["train"]["docs"], **files}}}
    second["model"] = {"total_limit": 65}
    said = []
    with pytest.raises(InputError) as found:
        train(phases_of(small_recipe(), SHORT, second), tmp_path / "out", said=said)
    long, *others = found.value.problems
    assert long.startswith("phase part-2: model: its limits allow 65 tokens, ")
    assert [each.partition(": expected")[0] for each in others] == [
        f"phase part-2: {bad['qrels']}: line 1",
        f"phase part-2: {bad['queries']}: line 1",
    ]
    assert not said and not (tmp_path / "out").exists()


def test_an_error_within_a_phase_names_it(small_recipe, train, tmp_path):
    second = {"steps": None, "epochs": 0.1, "validate": {"every": 500}}
    with pytest.raises(InputError, match="validate.every: expected at most") as found:
        train(phases_of(small_recipe(), SHORT, second), tmp_path / "out")
    assert found.value.__notes__ == ["in phase part-2"]
