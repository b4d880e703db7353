import threading

import pytest

import raypipe
from raypipe import config
from raypipe.api.recipe import inline_by_default
from raypipe.config import load_recipe, resolved_yaml
from raypipe.errors import InputError, RefusedError


def test_a_recipe_is_loaded_from_its_keys_a_file_or_a_name(recipe, tmp_path, monkeypatch):
    loaded = raypipe.Recipe.load(recipe)
    assert isinstance(loaded, config.Recipe) and loaded.stages["mono"].k0 == 12
    file = tmp_path / "my.yaml"
    file.write_text(resolved_yaml(loaded))
    for given in (file, str(file)):
        assert resolved_yaml(raypipe.Recipe.load(given)) == resolved_yaml(loaded)
    monkeypatch.setenv("RAYPIPE_DATA", "/data")
    named = raypipe.Recipe.load("nfcorpus")
    assert named.collection.input == ("/data/nfcorpus",)
    with pytest.raises(InputError, match="did you mean nfcorpus"):
        raypipe.Recipe.load("nfcorpsu")
    with pytest.raises(InputError, match="use `raypipe train repbert`"):
        raypipe.Recipe.load("repbert")


def test_overrides_are_dotted_keys_or_the_command_lines_texts(recipe, tmp_path):
    given = {"stages.dense.depth": 7, "evaluate.measures": ("AP",), "stores": tmp_path}
    loaded = raypipe.Recipe.load(recipe, given)
    assert loaded.stages["dense"].depth == 7 and loaded.evaluate.measures == ("AP",)
    assert loaded.stores == str(tmp_path)
    for texts in (["stages.dense.depth=7"], "stages.dense.depth=7"):
        assert raypipe.Recipe.load(recipe, texts).stages["dense"].depth == 7
    with pytest.raises(InputError, match="dens"):
        raypipe.Recipe.load(recipe, {"stages.dens.depth": 7})


def test_work_is_inline_unless_the_recipe_says_otherwise(recipe):
    plain = raypipe.Recipe.load(recipe)
    assert plain.resources.backend == "ray"
    assert inline_by_default(plain).resources.backend == "inline"
    assert inline_by_default(plain).resources.device == "cpu"
    said = raypipe.Recipe.load(recipe, {"resources.backend": "ray"})
    assert inline_by_default(said).resources.backend == "ray"


def test_an_invocation_gives_its_runs_measures_and_table(made):
    assert made.summary["status"] == "complete"
    assert list(made.runs) == ["test"]
    assert list(made.runs["test"]) == ["dense", "mono", "duo-sum", "duo-min", "fused", "rrf"]
    assert made.runs is made.runs
    assert made.table.startswith((made.folder / "table.md").read_text()[:20])
    assert "duo-sum" in made.table
    assert len(repr(made)) < 200


def test_the_same_call_computes_nothing_again_and_a_change_is_refused_when_frozen(recipe, made):
    loaded = raypipe.Recipe.load(recipe)
    again = raypipe.run(loaded, made.folder, progress=True)
    assert all(stage["reused"] for stage in again.summary["stages"].values())
    assert again.runs["test"]["mono"].equals(made.runs["test"]["mono"])
    with pytest.raises(RefusedError, match="depth 15 -> 3"):
        raypipe.run(recipe, made.folder, overrides={"stages.rrf.depth": 3}, frozen=True)
    with pytest.raises(InputError, match="overrides: the recipe is loaded already"):
        raypipe.run(loaded, made.folder, overrides={"stages.rrf.depth": 3})


def test_a_part_of_a_recipe_gives_the_runs_of_that_part(recipe, tmp_path):
    found = raypipe.run(load_recipe(recipe), tmp_path / "work", until="dense")
    assert list(found.runs["test"]) == ["dense"]
    with pytest.raises(InputError, match="only"):
        raypipe.run(recipe, tmp_path / "work", only="nothing")


def test_it_runs_in_another_thread(recipe, made):
    found = []
    thread = threading.Thread(target=lambda: found.append(raypipe.run(recipe, made.folder)))
    thread.start()
    thread.join()
    assert found[0].summary["status"] == "complete"


def test_stores_that_were_taken_away_are_told(recipe, tmp_path):
    import shutil

    from raypipe.errors import IncompleteError

    found = raypipe.run(recipe, tmp_path / "work", until="dense")
    shutil.rmtree(tmp_path / "work" / "stores" / "dense.test")
    with pytest.raises(IncompleteError, match="dense.test.*run it again"):
        found.runs  # noqa: B018
