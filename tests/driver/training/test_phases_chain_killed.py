"""`raypipe train`: pre-training, monoBERT and duoBERT in one chain, killed in each phase."""

import json
import signal

import pytest
from chain_training import MODELS, PHASES, STORES, chain_recipe
from killed_trainings import files, killed_at, log_of, start

from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def recipe(tiny, small_files, tiny_model, tmp_path_factory):
    return chain_recipe(tiny, small_files, tiny_model, tmp_path_factory.mktemp("chain"))


@pytest.fixture(scope="module")
def calm(recipe, tmp_path_factory):
    """What is left of a command that nobody disturbs."""
    out = tmp_path_factory.mktemp("calm") / "out"
    assert start(recipe, out).wait() == 0, log_of(out)
    return out


WHOLE = ("model.safetensors", "config.json", "raypipe.json", "tokenizer.json")


@pytest.mark.fault(
    43, "pre-training, monoBERT, duoBERT: 1 kill -9 in each phase, the same 12 files of models"
)
def test_a_chain_killed_once_in_each_phase_leaves_the_same_models(recipe, calm, tmp_path):
    """Each time after the first checkpoints of the phase, so that it has more to compute."""
    cut = tmp_path / "cut"
    for store in STORES:
        assert killed_at(recipe, cut, f"{store}/*/steps/*.json") == -signal.SIGKILL, log_of(cut)
        assert not list((cut / "stores" / store).glob("*/manifest.json")), "the phase had ended"
    assert start(recipe, cut).wait() == 0, log_of(cut)
    assert_same(calm, cut)


@pytest.mark.fault(
    43, "the same chain, killed when its text is cut and as each phase ends: the same 12 files"
)
def test_a_chain_killed_between_its_phases_leaves_the_same_models(recipe, calm, tmp_path):
    """Where the weights are published, and the model's folder may be written or not."""
    cut = tmp_path / "cut"
    awaited = ["examples@docs/*/shards/*.json", *(f"{store}/*/manifest.json" for store in STORES)]
    for each in awaited:
        assert killed_at(recipe, cut, each) == -signal.SIGKILL, log_of(cut)
    assert start(recipe, cut).wait() == 0, log_of(cut)
    assert_same(calm, cut)


def assert_same(calm, cut):
    expected = files(calm / "models")
    assert {name.split("/")[0] for name in expected} == {*MODELS}
    assert {f"{model}/{file}" for model in MODELS for file in WHOLE} <= {*expected}
    assert files(cut / "models") == expected
    told = [json.loads((out / "summary.json").read_text())["phases"] for out in (calm, cut)]
    assert [*told[0]] == [*PHASES]
    for phase in PHASES:
        of_calm, of_cut = (each[phase] for each in told)
        assert of_calm["history"] == of_cut["history"] and of_calm["step"] == of_cut["step"]
    assert verify(open_workspace(cut)) == []
