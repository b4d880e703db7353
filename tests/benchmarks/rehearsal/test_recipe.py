"""The recipe of a rehearsal has every stage of the packaged MS MARCO recipes."""

import pytest
import yaml

from raypipe.config import load_recipe, recipe_text
from rehearsal.recipe import GROUPS, write_recipe


@pytest.mark.parametrize("more", [True, False])
def test_it_has_every_stage_of_both_recipes_and_only_k1_differs(tmp_path, more):
    write_recipe(tmp_path / "r.yaml", more=more)
    found = yaml.safe_load((tmp_path / "r.yaml").read_text())
    packaged = {}
    for name in ("msmarco-passage", "msmarco-multistage"):
        packaged |= yaml.safe_load(recipe_text(name))["stages"]
    assert found["stages"].pop("duo") == packaged.pop("duo") | {"k1": 10}
    assert found["stages"] == packaged
    assert list(found["queries"]) == ["dev", *(["eval"] if more else [])]


def test_it_loads_beside_its_inputs_and_its_groups_are_stages_in_order(tmp_path):
    write_recipe(tmp_path / "r.yaml", more=False)
    for name in ("collection.tsv", "queries.dev.small.tsv", "qrels.dev.small.tsv"):
        (tmp_path / "msmarco").mkdir(exist_ok=True)
        (tmp_path / "msmarco" / name).write_text("1\ta\n")
    for name in ("repbert", "monobert-large", "duobert-large"):
        (tmp_path / "models" / name).mkdir(parents=True)
    text = (tmp_path / "r.yaml").read_text()
    assert "$" not in text
    recipe = load_recipe(tmp_path / "r.yaml")
    assert [name for name in recipe.stages if name in GROUPS] == list(GROUPS)
