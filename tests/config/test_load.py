from pathlib import Path

import pydantic
import pytest
import yaml

from raypipe.config import load_recipe
from raypipe.errors import InputError
from raypipe.kinds.fuse import Fuse
from raypipe.kinds.lucene import LuceneIndex
from raypipe.kinds.search import Bm25Search, DenseSearch, Fixed


def test_parts_are_typed_objects_in_the_order_of_the_file(text: str):
    recipe = load_recipe(text)
    assert (recipe.format, recipe.name) == (1, "tiny")
    assert list(recipe.stages) == ["lucene", "embeddings", "bm25", "dense", "fused"]
    assert isinstance(recipe.stages["lucene"], LuceneIndex)
    assert recipe.evaluate and recipe.evaluate.measures == ("nDCG@10", "RR(rel=2)@10")
    assert recipe.resources.max_failed_rows == 0


def test_bm25_defaults_hold_for_every_collection_and_lucene_only(text: str):
    recipe = load_recipe(text)
    bm25, dense = recipe.stages["bm25"], recipe.stages["dense"]
    assert isinstance(bm25, Bm25Search) and isinstance(dense, DenseSearch)
    assert bm25.bm25 and (bm25.bm25.k1, bm25.bm25.b) == (0.9, 0.4)


def test_one_given_bm25_parameter_stays_and_the_other_is_filled_in(text: str):
    recipe = load_recipe(text, overrides=["stages.bm25.bm25.k1=0"])
    stage = recipe.stages["bm25"]
    assert isinstance(stage, Bm25Search) and isinstance(stage.bm25, Fixed)
    assert (stage.bm25.k1, stage.bm25.b) == (0.0, 0.4)


@pytest.mark.parametrize(
    ("method", "k", "weights"),
    [
        ("rrf", 60.0, None),
        ("rrf, k: 1", 1.0, None),
        ("weighted", None, (0.5, 0.5)),
        ("weighted, weights: [2, 1]", None, (2.0, 1.0)),
        ("alternate", None, None),
    ],
)
def test_a_fusion_has_the_settings_of_its_method_and_no_others(
    text: str, method: str, k: float | None, weights: tuple[float, ...] | None
):
    stage = load_recipe(text.replace("method: rrf", f"method: {method}")).stages["fused"]
    assert isinstance(stage, Fuse) and (stage.k, stage.weights) == (k, weights)


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


def test_the_size_of_python_docs_is_written_down(text: str):
    from raypipe.data.python_docs.build import STANDARD_PASSAGES

    python_docs = text.replace("msmarco-v1, input: collection.tsv", "python-docs")
    assert load_recipe(python_docs).collection.max_passages == STANDARD_PASSAGES
    smaller = load_recipe(python_docs, overrides=["collection.max_passages=300"])
    assert smaller.collection.max_passages == 300
    assert load_recipe(text).collection.max_passages is None


@pytest.mark.parametrize(
    "measure",
    ["AP", "nDCG@10", "RR(rel=2)@10", "IPrec@0.1", "alpha_nDCG(judged_only=True)@5", "Judged@10"]
    + ["nDCG(dcg='exp-log2')@10", "RBP(p=0.8,rel=1)"],
)
def test_measures_of_ir_measures_pass_as_they_are_written(text: str, measure: str):
    import ir_measures

    assert ir_measures.parse_measure(measure) is not None
    data = yaml.safe_load(text) | {"evaluate": {"measures": [measure]}}
    recipe = load_recipe(data)
    assert recipe.evaluate and recipe.evaluate.measures == (measure,)
