"""What a plan says of Lucene's stages, which it computes by hand: neither needs Java."""

import pytest
from sparse_models import make_splade

from raypipe.config import load_recipe
from raypipe.driver.forecast.plan import make_plan

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
