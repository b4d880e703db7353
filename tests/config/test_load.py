from pathlib import Path

import pydantic
import pytest
import yaml

from raypipe.config.load import load_recipe
from raypipe.errors import InputError
from raypipe.kinds.fuse import Fuse


def test_a_file_gives_its_folder_and_its_name(text: str, tmp_path: Path):
    path = tmp_path / "sub" / "a.yaml"
    path.parent.mkdir()
    path.write_text("\ufeff" + text)
    assert load_recipe(path).collection.input == (str(tmp_path / "sub" / "collection.tsv"),)
    path.write_text(text.replace("depth", "x").replace("method: rrf", "method: x"))
    with pytest.raises(InputError, match=f"{path}: line 14: stages.fused.method: expected"):
        load_recipe(path)


def test_a_mapping_is_taken_as_it_is(text: str):
    data = yaml.safe_load(text) | {"name": "made"}
    data["queries"]["test"]["file"] = "/odd/${HOME}/q.tsv"
    recipe = load_recipe(data)
    assert recipe.name == "made"
    assert recipe.queries["test"].file == "/odd/${HOME}/q.tsv"
    with pytest.raises(InputError, match="^raypipe encode: nam: unknown key"):
        load_recipe(data | {"nam": 1}, source="raypipe encode")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"#" * 1_000_001])
def test_a_file_that_cannot_be_read_as_a_recipe_is_bad_input(tmp_path: Path, content):
    path = tmp_path / "a.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}: expected a recipe"):
        load_recipe(path)
    with pytest.raises(InputError, match="expected a recipe"):
        load_recipe(tmp_path)


def test_a_recipe_is_frozen(text: str):
    recipe = load_recipe(text)
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        recipe.resources.gpus = 3  # type: ignore[misc]


def test_formats_and_fusions_are_those_that_are_built():
    from raypipe.config.recipe import Collection
    from raypipe.data.formats.registry import FORMATS
    from raypipe.ranking.fuse import METHODS

    known = Collection.model_fields["format"].annotation.__args__
    assert set(known) == {*FORMATS, "python-docs"}
    method, none = Fuse.model_fields["method"].annotation.__args__
    assert set(method.__args__) == set(METHODS) and none is type(None)


@pytest.mark.parametrize("recipe", ["", "- a\n- b\n", "just text", "3"])
def test_what_is_no_mapping_is_told_so(problems, recipe: str):
    (problem,) = problems(recipe, source="a.yaml")
    assert problem.startswith("a.yaml: line 1: expected a mapping, KEY: VALUE; found ")


def test_numbers_too_long_to_print_are_told(text: str, problems):
    huge = f"depth: 0x{'f' * 5000}"
    k, depth = problems(text.replace("method: rrf", f"method: rrf, k: 0x{'f' * 5000}, {huge}"))
    assert depth.endswith("up to 1e+12; found a number of thousands of digits")
    assert k.endswith("found a number of thousands of digits")
