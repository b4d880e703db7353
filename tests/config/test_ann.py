"""What a recipe may say of approximate search."""

import pytest

from raypipe.config import load_recipe
from raypipe.errors import InputError
from raypipe.kinds.search import AnnSearch

RECIPE = """
format: 1
name: near
collection: {format: msmarco-v1, input: passages.tsv}
queries: {test: {file: queries.tsv}}
models: {minilm: {path: builtin}}
stages:
  lucene: {do: index}
  embeddings: {do: encode, model: minilm}
  graph: {do: ann, embeddings: embeddings}
  lists: {do: ann, embeddings: embeddings, ivf_pq: {}}
  near: {do: search, index: graph}
  listed: {do: search, index: lists, ann: {probes: 4, refine: 3}}
"""


@pytest.fixture
def load(tmp_path):
    for name in ("passages.tsv", "queries.tsv"):
        (tmp_path / name).write_text("1\ttext\n")
    (tmp_path / "recipe.yaml").write_text(RECIPE)

    def loaded(*overrides):
        return load_recipe(tmp_path / "recipe.yaml", overrides=overrides)

    return loaded


def test_defaults_are_a_graph_and_twice_as_many_proposals(load):
    stages = load().stages
    assert stages["graph"].hnsw.model_dump() == {"links": 32, "ef_construction": 200}
    assert stages["graph"].ivf_pq is None and stages["lists"].hnsw is None
    assert stages["lists"].ivf_pq.model_dump() == {
        "lists": "auto", "code_bytes": "auto", "train_rows": "auto", "seed": 0,
    }  # fmt: skip
    near, listed = stages["near"], stages["listed"]
    assert isinstance(near, AnnSearch) and isinstance(listed, AnnSearch)
    assert near.ann.model_dump() == {
        "refine": 2, "ef_search": "auto", "probes": "auto", "recall_queries": 100,
    }  # fmt: skip
    assert (listed.ann.probes, listed.ann.refine, listed.depth) == (4, 3, 1000)
    assert (near.inputs, stages["graph"].inputs) == (("graph",), ("embeddings",))
    assert stages["graph"].produces == "index" and near.produces == "run"


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("stages.graph.hnsw={linkz: 3}", "stages.graph.hnsw.linkz: unknown key; did you mean"),
        ("stages.graph.hnsw={links: 1}", "stages.graph.hnsw.links"),
        (
            "stages.graph.embeddings=lucene",
            "stages.graph.embeddings: expected an encode stage; luc",
        ),
        ("stages.lists.hnsw={}", "stages.lists.ivf_pq: found hnsw too"),
        ("stages.near.ann={probes: 3}", "stages.near.ann.probes: graph is a graph, which has none"),
        ("stages.listed.ann={ef_search: 3}", "stages.listed.ann.ef_search: lists is lists, which"),
        ("stages.near.ann={refine: 0}", "stages.near.ann.refine"),
        ("stages.near.bm25={k1: 1.0}", "stages.near.bm25: for a Lucene index of words only"),
        ("stages.near.rm3={}", "stages.near.rm3: for a Lucene index of words only"),
        ("stages.listed.index=embeddings", "stages.listed.ann: for an ann index only"),
        ("stages.near.ann={effort: 3}", "stages.near.ann.effort: unknown key"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_key(load, override, told):
    with pytest.raises(InputError) as caught:
        load(override)
    assert any(told in problem for problem in caught.value.problems), caught.value.problems
