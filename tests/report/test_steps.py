"""The steps of a reproduction: their recipes, settings and folders."""

from pathlib import Path

import pytest

from raypipe.config import Recipe, Training
from raypipe.errors import InputError
from raypipe.report.published import plan, reproduction, unset_variables, variables

OUT = Path("/out")


def test_steps_have_their_folders_common_stores_and_the_models_of_earlier_steps():
    mono, duo, last = plan(reproduction("duobert"), OUT, data=Path("/data"))
    assert [each.folder for each in (mono, duo, last)] == [
        OUT / "monobert-2019b", OUT / "duobert-2019", OUT / "duobert-multistage"
    ]  # fmt: skip
    assert isinstance(mono.recipe, Training) and isinstance(last.recipe, Recipe)
    assert mono.recipe.model.start == "/data/models/bert-large-uncased"
    assert last.recipe.stores == "/out/stores" and mono.recipe.stores is None
    models = {name: model.path for name, model in last.recipe.models.items()}
    assert models == {
        "mono-model": "/out/monobert-2019b/models/monobert-2019b",
        "duo-model": "/out/duobert-2019/models/duobert-2019",
    }


def test_two_trainings_may_share_a_workspace_and_read_what_a_pipeline_left():
    steps = {each.step.called: each for each in plan(reproduction("car"), OUT, data=Path("/d"))}
    assert steps["car-mono"].folder == steps["car-duo"].folder == OUT / "car-trained"
    assert steps["car-mono"].recipe.train["car"].queries == "/out/car/topics/train/queries.tsv"
    duo = steps["car-multistage"].recipe.models["duo-model"]
    assert duo.path == "/out/car-trained/models/car-duo"


def test_a_setting_is_of_every_step_or_of_the_one_that_it_names():
    settings = ["resources.max_failures=7", "duobert-2019:steps=30000", "duobert-2019:seed=9"]
    mono, duo = plan(
        reproduction("duobert"), OUT, data=Path("/data"), settings=settings,
        only=["monobert-2019b", "duobert-2019"],
    )  # fmt: skip
    assert (mono.recipe.steps, duo.recipe.steps) == (100_000, 30_000)
    assert mono.recipe.resources.max_failures == duo.recipe.resources.max_failures == 7
    assert duo.recipe.seed == 9 != mono.recipe.seed
    settings = ["stages.mono.k0=5", "models.mono-model.path=/models/mono:2019"]
    (only,) = plan(reproduction("monobert"), OUT, data=Path("/data"), settings=settings)
    assert only.recipe.stages["mono"].k0 == 5  # the colon of a value names no step
    assert only.recipe.models["mono-model"].path == "/models/mono:2019"


def test_problems_of_every_step_are_told_together_with_its_name():
    with pytest.raises(InputError) as found:
        plan(reproduction("duobert"), OUT, data=Path("/data"), settings=["seed=x"])
    assert {problem.split(":")[0] for problem in found.value.problems} == {
        "monobert-2019b", "duobert-2019", "duobert-multistage"
    }  # fmt: skip
    with pytest.raises(InputError, match="duobert has no step 'duobert-2018'; did you mean duo"):
        plan(reproduction("duobert"), OUT, only=["duobert-2018"])
    with pytest.raises(InputError, match="no step 'duobert'; did you mean"):
        plan(reproduction("duobert"), OUT, settings=["duobert:steps=1"])


def test_a_variable_that_is_set_counts_more_than_the_folder_of_data():
    env = {"MSMARCO": "/elsewhere"}
    found = variables(env, Path("/data"))
    assert found["MSMARCO"] == "/elsewhere" and found["MSMARCO_V2"] == "/data/msmarco-v2"
    assert found["RAYPIPE_DATA"] == "/data/collections"
    assert unset_variables(env, Path("/data")) == []
    assert variables(env, None)["TRECCAR"] == "/${TRECCAR}"
    assert unset_variables(env, None) == ["MSMARCO_V2", "MODELS", "RUNS", "TRECCAR", "RAYPIPE_DATA"]
