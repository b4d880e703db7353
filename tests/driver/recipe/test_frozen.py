import shutil
from dataclasses import replace

import pytest

from raypipe.config.load import load_recipe
from raypipe.driver.recipe.compare import refuse_changes
from raypipe.driver.upkeep.status import open_workspace
from raypipe.errors import RefusedError
from raypipe.storage.ledger import find_spec


def test_settings_are_compared_and_nothing_is_written(finished):
    root, _ = finished
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    refuse_changes(load_recipe(root / "work" / "recipe.yaml"), open_workspace(root / "work"))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def refused(root, *overrides, models=None):
    """The lines of a refusal of the workspace's own recipe with overrides."""
    recipe = load_recipe(root / "work" / "recipe.yaml", overrides=[*overrides])
    with pytest.raises(RefusedError) as caught:
        refuse_changes(recipe, open_workspace(root / "work"), models)
    return str(caught.value).split("\n")


REMEDY = "; set that back, or run once without --frozen to take the change"


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["stages.mono.k0=7"], "stages.mono.k0 12 -> 7"),
        (["models.mono.settings={passage_limit: 40}"],
         "models.mono.settings.passage_limit not set -> 40"),
        (["stages.duo-min.k1=2", "evaluate.measures=[RR@10]", "resources.actors=2"],
         "stages.duo-min.k1 3 -> 2"),
        (["stages.duo-min.method=max", "stages.mono.k0=9"],
         "stages.mono.k0 12 -> 9, stages.duo-min.method 'min' -> 'max'"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_recipes_keys_with_both_values_and_the_remedy(
    finished, overrides, keys
):
    first, *stores = refused(finished[0], *overrides)
    assert first == f"--frozen: {keys}{REMEDY}"
    assert stores and all(": params." in line for line in stores)


def test_a_refusal_names_a_list_with_both_values(run, finished, tmp_path):
    more = "  fused: {do: fuse, runs: [first, duo-min], method: weighted, weights: [1, 3]}"
    run(tmp_path / "work", finished[0] / "stores", more=more)
    first, store = refused(tmp_path, "stages.fused.weights=[1, 2]")
    assert first == f"--frozen: stages.fused.weights [1.0, 3.0] -> [1.0, 2.0]{REMEDY}"
    assert store == "fused.test: params.weights [1.0,3.0] -> [1.0,2.0]"


def test_where_no_key_changed_it_is_the_models_files_a_library_or_raypipe(finished, monkeypatch):
    def of_another_version(*place):
        found = find_spec(*place)
        return found and replace(found, semantics=found.semantics + 1)

    monkeypatch.setattr("raypipe.driver.recipe.compare.find_spec", of_another_version)
    first, *_ = refused(finished[0])
    assert first.startswith("--frozen: no key of the recipe changed since the last invocation")


def test_without_its_recipe_the_remedy_is_told_all_the_same(finished, tmp_path):
    root = shutil.copytree(finished[0], tmp_path / "copy")
    recipe = load_recipe(root / "work" / "recipe.yaml", overrides=["stages.mono.k0=7"])
    (root / "work" / "recipe.yaml").unlink()
    with pytest.raises(RefusedError, match="settings differ.*run once without --frozen"):
        refuse_changes(recipe, open_workspace(root / "work"))
