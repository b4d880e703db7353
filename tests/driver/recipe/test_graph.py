from types import SimpleNamespace

import pytest

from raypipe.config.load import load_recipe
from raypipe.driver.recipe.graph import Chain, Graph, System
from raypipe.kinds.encode import Encode
from raypipe.kinds.score import MonoScore
from raypipe.kinds.search import DenseSearch
from raypipe.names import Role, of_queries, of_stage
from raypipe.stages.excluded import NOTHING


def test_stores_are_asked_for_once(invocable):
    _, recipe = invocable
    asked = []

    class Stopped(Exception):
        """Raised at the first store that is asked for."""

    def ensure(name, stage):
        asked.append(str(name))
        raise Stopped

    graph = Graph(recipe, SimpleNamespace(ensure=ensure, fixed=lambda name: None))
    for ask, first in (
        (graph.ids, "count@collection"),
        (lambda: graph.queries("dev"), "queries@dev"),
        (lambda: graph.system("vectors", None), "count@collection"),
        (lambda: graph.system("dense", "dev"), "count@collection"),
        (lambda: graph.tokens("tiny", "all"), "queries@all"),
    ):
        with pytest.raises(Stopped):
            ask()
        assert asked.pop() == first and asked == []


def test_a_stage_is_made_and_asked_for_once(invocable):
    _, recipe = invocable
    asked, made = [], []

    def ensure(name, stage):
        asked.append((name, stage))
        return f"stored {stage}"

    graph = Graph(recipe, SimpleNamespace(ensure=ensure, fixed=lambda name: None))
    for _ in range(2):
        for name in (of_queries("dev"), of_queries("all")):
            stored = graph.store(name, lambda name=name: made.append(name) or len(made))
            assert stored == {"dev": "stored 1", "all": "stored 2"}[name.owner]
    assert made == [of_queries("dev"), of_queries("all")]
    assert asked == [(of_queries("dev"), 1), (of_queries("all"), 2)]


def test_a_recipes_model_has_its_third_row_and_is_resolved_once(invocable):
    _, recipe = invocable
    graph = Graph(recipe, stores=None)
    model = graph.model("mono")
    assert model.reranker.segment_row == "zero" and graph.model("mono") is model
    assert Graph(recipe, stores=None, models={"tiny": model}).model("tiny") is model


@pytest.fixture
def made(monkeypatch):
    """Names, query sets and inputs of the stages as they are made; nothing is."""
    made = []

    def index(stage, graph, name, inputs):
        made.append((name, None, [*inputs]))
        return System(name, "index", f"stored {name}")

    def ranking(stage, graph, name, query_set, inputs):
        made.append((name, query_set, [*inputs]))
        return System(name, "run", f"stored {name}")

    monkeypatch.setattr(Encode, "make", index)
    for kind in (DenseSearch, MonoScore):
        monkeypatch.setattr(kind, "make", ranking)
    return made


def test_a_system_is_made_once_and_an_index_once_for_all_query_sets(invocable, made):
    graph = Graph(invocable[1], stores=None)
    dev, everything = graph.system("dense", "dev"), graph.system("dense", "all")
    assert graph.system("dense", "dev") is dev is not everything
    assert graph.system("vectors", None) is graph.system("vectors", "dev")
    assert made == [
        ("vectors", None, []), ("dense", "dev", ["vectors"]), ("dense", "all", ["vectors"]),
    ]  # fmt: skip


SELECTED = """
format: 1
name: small
collection: {format: msmarco-v1, input: /c/passages.tsv}
queries: {dev: {file: /c/q.tsv}, quiet: {file: /c/q.tsv, report: false}}
models: {tiny: {path: /m/tiny}, mono: {path: /m/mono}}
stages:
  vectors: {do: encode, model: tiny}
  dense: {do: search, index: vectors, depth: 2}
  mono: {do: score, run: dense, model: mono, k0: 2}
"""


def test_selected_stages_are_asked_in_order_for_each_reported_set(made, monkeypatch):
    graph = Graph(load_recipe(SELECTED, source="x"), stores=None)
    monkeypatch.setattr(graph, "collection", lambda: made.append("collection"))
    monkeypatch.setattr(
        MonoScore, "check", lambda stage, graph, name: made.append(("model", name, stage.model))
    )
    systems = graph.systems(["vectors", "mono"])
    assert made == [
        ("model", "mono", "mono"), "collection", ("vectors", None, []),
        ("dense", "dev", ["vectors"]), ("mono", "dev", ["dense"]),
    ]  # fmt: skip
    assert [(name, [each.name for each in of_set]) for name, of_set in systems.items()] == [
        ("dev", ["mono"])
    ]


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
    graph = SimpleNamespace(
        recipe=recipe,
        stores=SimpleNamespace(ensure=lambda store, stage: asked.append((str(store), stage))),
        sides=lambda query_set: query_set,
        excluded=lambda _: NOTHING,
    )
    inputs = {"lucene": System("lucene", "index", "stored")}
    found = recipe.stages[name].make(graph, name, "test", inputs)
    assert (found.model, found.produces, found.reranks) == (model, "run", "collection")
    ((store, stage),) = asked
    assert [store] == list(map(str, found.chain.stores)) == [f"{name}.test"]
    rm3 = stage.rm3 and (stage.rm3.fb_docs, stage.rm3.fb_terms)
    assert (stage.k1, stage.b, stage.depth, rm3) == settings
    assert (stage.sides, stage.index, stage.excluded) == ("test", "stored", NOTHING)


ONE, TWO, SCORES = of_stage("a", "dev"), of_stage("b", "dev"), of_stage("a", "dev", Role.SCORES)


def test_chains_are_joined_once_each_in_order():
    joined = Chain((ONE,)).then(Chain((TWO, ONE)), Chain((SCORES,)))
    assert joined == Chain((ONE, TWO, SCORES))
    assert Chain().then() == Chain(())
