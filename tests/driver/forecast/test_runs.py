"""The lines, bytes, seconds and inferences that a plan expects of runs and scores, by hand."""

import pytest
from pytest import approx
from small_documents import document, recipe_of, write_inputs
from sparse_models import make_splade

from raypipe.config.load import load_recipe
from raypipe.driver.forecast.plan import make_plan
from raypipe.text.split import Splitting, passages_of


def stores_of(plan):
    return {line.store: line for line in plan.forecast.lines}


def test_runs_take_what_their_lines_take_and_scores_what_their_candidates_take(recipe, tmp_path):
    """12 queries over 230 passages, in several shards, of 32 numbers; the run file has 5 lines of
    each."""
    long = ("stages.dense.depth=400", "stages.fused.depth=300")
    plan = make_plan(recipe(*long), tmp_path / "work")
    stores = stores_of(plan)
    lines = {
        "parts@dense.dev": 12 * 230,  # no more than there are
        "dense.dev": 12 * 230,
        "given.dev": 12 * 5,
        "fused.dev": 12 * (230 + 5),  # as if no passage were in both
        "mono.dev": 12 * 230,  # the tail is kept
        "duo-sum.dev": 12 * 230,
        "short.dev": 12 * 3,  # the tail is dropped
    }
    products = 12 * (230 * 32) * 4e-11
    for store, number in lines.items():
        seconds = number * 1.5e-6 + (products if store.startswith("parts") else 0.0)
        assert stores[store].other_seconds == approx(seconds), store
        assert stores[store].bytes == approx(11 * number + 1700 * stores[store].shards), store
    assert stores["parts@dense.dev"].shards > 1  # so that 230 is a sum over spans
    assert stores["dense.dev"].shards == 1
    candidates = {
        "scores@mono.dev": 12 * 10,
        "scores@deeper.dev": 12 * 15,
        "scores@duo.dev": 12 * 4 * 3,
        "scores@short.dev": 12 * 3,
    }
    for store, number in candidates.items():
        assert (stores[store].rows, stores[store].other_seconds) == (
            number,
            approx(number * 1.5e-6),
        )
    pairs = stores["duo.dev"]
    assert (pairs.rows, pairs.other_seconds) == (12, approx(12 * 4 * 3 * 1.5e-6))
    assert stores["scores@short.dev"].inferences == 36  # though some may have scores by then
    own = "the models' rates are those of a probe on this machine"
    assert plan.forecast.notes == [own]


def test_runs_of_documents_have_no_more_lines_than_passages_runs_and_the_other_way_round(
    tmp_path, tiny_model, tiny_mono
):
    """3 queries in shards of 2; of two of them the file has 4 documents."""
    write_inputs(tmp_path)
    body = recipe_of(tmp_path, tiny_model, tiny_mono)
    kept = ("embeddings", "dense", "dense-sump", "given", "windows")
    body["stages"] = {name: body["stages"][name] for name in kept}
    body["stages"]["long"] = {**body["stages"]["dense-sump"], "depth": 1000}
    body["stages"]["all"] = {"do": "passages", "run": "given", "documents": 100}
    body["models"] = {"encoder": body["models"]["encoder"]}
    body["evaluate"] = {"measures": ["RR@10"]}
    stores = stores_of(make_plan(load_recipe(body, source="documents"), tmp_path / "work"))
    splitting = Splitting("words", length=3, stride=2)
    texts = [t for n in range(12) for t in passages_of("", "", document(n)["body"], splitting)]
    assert stores["passages@collection"].rows == len(texts) == 34
    ids = 34 * ((10 * 2 + 2 * 3) / 12 + len("#00"))
    assert stores["passages@collection"].bytes == approx(sum(map(len, texts)) + ids)
    for store, number in {
        "dense-sump.test": 3 * 5,
        "long.test": 3 * 12,  # no more than there are documents
        "given.test": 2 * 4,
        "windows.test": 2 * 4 * 2,  # of the first documents the first 2 windows
        "all.test": 2 * 4 * 3,  # 34 passages of 12 documents, rounded up
    }.items():
        assert stores[store].bytes == approx(11 * number + 1700 * stores[store].shards), store
        assert stores[store].other_seconds == approx(number * 1.5e-6), store


RECIPE = """
format: 1
name: lucene
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  dev: {{file: {folder}/queries.tsv}}
  train: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt, report: false}}
models: {{splade: {{path: {model}}}}}
stages:
  lucene: {{do: index}}
  bm25:
    do: search
    index: lucene
    depth: 1000
    bm25: {{tune: {{queries: train, measure: RR@10, k1: [0.6, 0.9, 1.2], b: [0.3, 0.4]}}}}
  weights: {{do: encode, model: splade}}
  impacts: {{do: index, embeddings: weights}}
  by-lucene: {{do: search, index: impacts, depth: 50}}
resources: {{backend: inline, device: cpu, shard_queries: 5}}
"""


def test_indexes_and_searches_of_lucene_take_what_their_texts_impacts_and_lines_take(
    files, tmp_path
):
    """12 queries in shards of 5; no query finds more than the collection's 230 passages."""
    (files / "qrels.txt").write_text("q0 0 1 1\n")
    text = RECIPE.format(folder=files, model=make_splade(tmp_path / "splade"))
    plan = make_plan(load_recipe(text, source="lucene"), tmp_path / "work")
    lines = {line.store: line for line in plan.forecast.lines}
    rows = [line.split("\t")[1] for line in (files / "passages.tsv").read_text().splitlines()]
    size, index = sum(map(len, rows)), lines["lucene"]
    assert index.rows == 230 and index.bytes == pytest.approx(45_000 + 1.282 * size + 87.4 * 230)
    assert index.seconds == pytest.approx(3.3 + 1.5e-6 * size)
    tuned = lines["tune@bm25"]
    assert tuned.rows == 12 and tuned.seconds == pytest.approx(0.1 + 6 * 12 * 230 * 1.7e-5)
    impacts, weights = lines["impacts"], lines["weights"].bytes
    assert impacts.rows == 230 and impacts.bytes == pytest.approx(45_000 + 0.6 * weights, abs=1)
    assert impacts.seconds == pytest.approx(3.3 + 1.7e-7 * weights, abs=1e-6)
    for store, found in (("bm25.dev", 230), ("by-lucene.dev", 50)):
        assert lines[store].seconds == pytest.approx(0.1 + 12 * found * 1.7e-5)
        assert lines[store].bytes == pytest.approx(11 * 12 * found + 3 * 1700)
    unjudged = "train: 1 of 12 queries are judged"
    assert plan.forecast.notes == [
        unjudged,
        "the models' rates are those of a probe on this machine",
    ]
