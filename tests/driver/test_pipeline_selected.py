"""Which stages an invocation runs, and on what."""

from types import SimpleNamespace

from raypipe.config import load_recipe
from raypipe.driver import pipeline
from raypipe.driver.recipe import graph
from raypipe.names import Role, of_collection, of_queries, of_stage, tokens_of

SCORES = of_stage("m", "dev", Role.SCORES)


RECIPE = """
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


def test_only_computes_a_stages_own_stores():
    allowed = pipeline._allowed(["mono"])
    assert allowed(of_stage("mono", "dev")) and allowed(SCORES) is False
    assert allowed(of_stage("mono", "dev", Role.SCORES))
    for store in (of_stage("dense", "dev"), tokens_of("tiny"), of_queries("dev")):
        assert not allowed(store)
    assert not allowed(of_collection(Role.PASSAGES))
    dense = pipeline._allowed(["dense"])
    assert dense(of_stage("dense", "dev", Role.PARTS)) and not dense(tokens_of("tiny"))


def test_selected_stages_are_asked_in_order_for_each_reported_set(monkeypatch):
    asked = []

    def system(name, query_set):
        asked.append((name, query_set))
        return name

    def model_of(basis, name, stage):
        asked.append(("model", name, stage.model))

    monkeypatch.setattr(graph, "Graph", lambda basis: SimpleNamespace(system=system))
    monkeypatch.setattr(graph.rerank, "model_of", model_of)
    basis = SimpleNamespace(
        recipe=load_recipe(RECIPE, source="x"), collection=lambda: asked.append("collection")
    )
    systems = graph.systems_of(basis, ["vectors", "mono"])
    before = ("model", "mono", "mono")
    assert asked == [before, "collection", ("vectors", None), ("mono", "dev")]
    assert systems == {"dev": ["mono"]}
