import pytest
from loaded_packages import HEAVY, loaded_after

from raypipe.api.workspace import inline_by_default, load
from raypipe.config.recipe import Recipe
from raypipe.config.resolved import resolved_yaml
from raypipe.errors import InputError


def test_a_recipe_is_loaded_from_its_keys_a_file_or_a_name(recipe, tmp_path, monkeypatch):
    loaded = load(recipe)
    assert isinstance(loaded, Recipe) and loaded.stages["mono"].k0 == 12
    file = tmp_path / "my.yaml"
    file.write_text(resolved_yaml(loaded))
    for given in (file, str(file)):
        assert resolved_yaml(load(given)) == resolved_yaml(loaded)
    monkeypatch.setenv("RAYPIPE_DATA", "/data")
    named = load("nfcorpus")
    assert named.collection.input == ("/data/nfcorpus",)
    with pytest.raises(InputError, match="did you mean nfcorpus"):
        load("nfcorpsu")
    with pytest.raises(InputError, match="use `raypipe train repbert`"):
        load("repbert")


def test_overrides_are_dotted_keys(recipe, tmp_path):
    given = {"stages.dense.depth": 7, "evaluate.measures": ("AP",), "stores": tmp_path}
    loaded = load(recipe, given)
    assert loaded.stages["dense"].depth == 7 and loaded.evaluate.measures == ("AP",)
    assert loaded.stores == str(tmp_path)
    with pytest.raises(InputError, match="dens"):
        load(recipe, {"stages.dens.depth": 7})


def test_work_is_inline_unless_the_recipe_says_otherwise(recipe):
    plain = load(recipe)
    assert plain.resources.backend == "ray"
    assert inline_by_default(plain).resources.backend == "inline"
    assert inline_by_default(plain).resources.device == "cpu"
    said = load(recipe, {"resources.backend": "ray"})
    assert inline_by_default(said).resources.backend == "ray"


@pytest.mark.slow
def test_a_recipe_is_loaded_without_torch_and_run_without_ray(recipe, tmp_path):
    code = f"import raypipe\nfrom raypipe.api.workspace import load\nrecipe = load({recipe!r})"
    assert loaded_after(code, *HEAVY) == []
    out = str(tmp_path / "work")
    code += f"\nraypipe.run(recipe, {out!r}, until='dense').runs['test']['dense']"
    assert loaded_after(code, "ray", "jnius") == []
