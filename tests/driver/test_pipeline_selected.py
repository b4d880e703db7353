"""Which stages an invocation runs, and on what."""

from types import SimpleNamespace

from raypipe.config import load_recipe
from raypipe.driver.recipe import graph

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
