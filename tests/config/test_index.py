"""What a recipe may say of a Lucene index."""

import pytest

from raypipe.config import load_recipe
from raypipe.config.resolved import resolved_yaml
from raypipe.errors import InputError
from raypipe.kinds.lucene import ImpactIndex, LuceneIndex
from raypipe.kinds.search import Bm25Search, DenseSearch

RECIPE = """
format: 1
name: sparse
collection: {format: msmarco-v1, input: passages.tsv}
queries: {test: {file: queries.tsv}}
models: {splade: {path: builtin}}
stages:
  lucene: {do: index}
  weights: {do: encode, model: splade}
  impacts: {do: index, embeddings: weights}
  near: {do: ann, embeddings: weights}
  bm25: {do: search, index: lucene}
  found: {do: search, index: impacts, depth: 7}
"""


@pytest.fixture
def load(tmp_path):
    for name in ("passages.tsv", "queries.tsv"):
        (tmp_path / name).write_text("1\ttext\n")
    (tmp_path / "recipe.yaml").write_text(RECIPE)

    def loaded(*overrides, file="recipe.yaml"):
        return load_recipe(tmp_path / file, overrides=overrides)

    return loaded


def test_an_index_over_embeddings_is_of_impacts_and_its_search_an_exact_one(load, tmp_path):
    recipe = load()
    stages = recipe.stages
    assert stages["impacts"] == ImpactIndex(do="index", embeddings="weights")
    assert stages["impacts"].inputs == ("weights",) and stages["impacts"].produces == "index"
    assert isinstance(stages["lucene"], LuceneIndex) and stages["lucene"].inputs == ()
    assert stages["found"] == DenseSearch(do="search", index="impacts", depth=7)
    assert isinstance(stages["bm25"], Bm25Search)
    text = resolved_yaml(recipe)
    assert text.count("embeddings: ") == 2 and text.count("language: ") == 1
    (tmp_path / "resolved.yaml").write_text(text)
    assert load(file="resolved.yaml") == recipe


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("stages.impacts.embeddings=lucene", "impacts.embeddings: expected an encode stage; luce"),
        ("stages.impacts.embeddings=near", "impacts.embeddings: expected an earlier stage of kind"),
        ("stages.impacts.embeddings=weigths", "impacts.embeddings: expected an earlier stage"),
        ("stages.impacts.language=de", "impacts.language: for an index of words only; remove"),
        ("stages.impacts.language=en", "impacts.language: for an index of words only; remove"),
        ("stages.found.bm25={k1: 1.0}", "found.bm25: for a Lucene index of words only, and impacts "
         "holds impacts; remove it"),
        ("stages.found.rm3={}", "found.rm3: for a Lucene index of words only, and impacts holds"),
        ("stages.found.ann={}", "found.ann: for an ann index only, and impacts is of kind index"),
        ("stages.near.embeddings=impacts", "near.embeddings: expected an encode stage; impacts is"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_key(load, override, told):
    with pytest.raises(InputError) as caught:
        load(override)
    assert any(f"stages.{told}" in problem for problem in caught.value.problems), (
        caught.value.problems
    )
