from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from raypipe.driver.recipe.first_stages import bm25_search

from raypipe.config import load_recipe
from raypipe.driver.recipe import graph as graph_module
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.recipe.system import System
from raypipe.stages.excluded import NOTHING


def test_stores_are_asked_for_once(invocable):
    _, recipe = invocable
    asked = []

    class Stopped(Exception):
        """Raised at the first store that is asked for."""

    def ensure(name, stage):
        asked.append(str(name))
        raise Stopped

    basis = Basis(recipe, SimpleNamespace(ensure=ensure, fixed=lambda name: None))
    graph = Graph(basis)
    for ask, first in (
        (basis.ids, "count@collection"),
        (lambda: basis.queries("dev"), "queries@dev"),
        (lambda: graph.system("vectors", None), "count@collection"),
        (lambda: graph.system("dense", "dev"), "count@collection"),
        (lambda: basis.tokens("tiny", "all"), "queries@all"),
    ):
        with pytest.raises(Stopped):
            ask()
        assert asked.pop() == first and asked == []


@dataclass(frozen=True)
class Made:
    """As much of a system as a graph reads."""

    inputs: dict
    approximate: tuple[str, ...] = ()
    unordered: int = 0


def test_a_system_is_made_once_and_an_index_once_for_all_query_sets(invocable, monkeypatch):
    _, recipe = invocable
    made = []

    def system_of(basis, name, stage, query_set, inputs):
        assert basis.recipe is recipe and stage is recipe.stages[name]
        made.append((name, query_set, list(inputs)))
        return Made(inputs)

    monkeypatch.setattr(graph_module, "system_of", system_of)
    graph = Graph(SimpleNamespace(recipe=recipe))
    dev, everything = graph.system("dense", "dev"), graph.system("dense", "all")
    assert graph.system("dense", "dev") is dev is not everything
    assert dev.inputs["vectors"] is everything.inputs["vectors"] is graph.system("vectors", None)
    assert [(name, inputs) for name, _, inputs in made] == [
        ("vectors", []), ("dense", ["vectors"]), ("dense", ["vectors"]),
    ]  # fmt: skip
    assert [query_set for name, query_set, _ in made if name == "dense"] == ["dev", "all"]


BM25 = """
format: 1
name: words
collection: {format: msmarco-v1, input: /c/passages.tsv}
queries: {test: {file: /c/queries.tsv}}
stages:
  lucene: {do: index}
  plain: {do: search, index: lucene, depth: 7}
  more: {do: search, index: lucene, bm25: {k1: 0.5, b: 0.2}, rm3: {fb_docs: 3, fb_terms: 4}}
"""


@pytest.mark.parametrize(
    ("name", "model", "settings"),
    [("plain", "BM25", (0.9, 0.4, 7, None)), ("more", "BM25+RM3", (0.5, 0.2, 1000, (3, 4)))],
)
def test_a_search_of_words_is_bm25s_with_its_settings_and_names_rm3_if_it_expands(
    name, model, settings
):
    recipe, asked = load_recipe(BM25, source="words"), []
    stores = SimpleNamespace(ensure=lambda store, stage: asked.append((str(store), stage)))
    basis = SimpleNamespace(
        recipe=recipe, stores=stores, sides=lambda query_set: query_set, excluded=lambda _: NOTHING
    )
    inputs = {"lucene": System("lucene", "index", "stored")}
    found = bm25_search(basis, name, recipe.stages[name], "test", inputs)
    assert (found.model, found.produces, found.reranks) == (model, "run", "collection")
    ((store, stage),) = asked
    assert [store] == list(map(str, found.chain.stores)) == [f"{name}.test"]
    rm3 = stage.rm3 and (stage.rm3.fb_docs, stage.rm3.fb_terms)
    assert (stage.k1, stage.b, stage.depth, rm3) == settings
    assert (stage.sides, stage.index, stage.excluded) == ("test", "stored", NOTHING)
