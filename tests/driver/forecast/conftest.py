"""A small recipe with every kind of work but Lucene's, and its collection."""

import random

import pytest

from raypipe.config import load_recipe

WORDS = ("lease", "shard", "zebra", "rank", "run", "query", "passage", "the", "a", "of")
RECIPE = """
format: 1
name: foreseen
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  dev: {{file: {folder}/queries.tsv}}
models:
  tiny: {{path: {model}}}
  mono: {{path: {mono}}}
  duo: {{path: {duo}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 20}}
  given: {{do: read, runs: {{dev: {folder}/run.trec}}}}
  fused: {{do: fuse, runs: [given, dense], method: rrf, depth: 20}}
  mono: {{do: score, run: dense, model: mono, k0: 10}}
  deeper: {{do: score, run: dense, model: mono, k0: 15}}
  duo: {{do: score, run: mono, model: duo, k1: 4}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
  short: {{do: score, run: given, model: mono, k0: 3, tail: drop}}
resources: {{backend: inline, device: cpu, shard_tokens: 700, shard_rows: 300}}
"""
NUM_PASSAGES, NUM_QUERIES = 230, 12


@pytest.fixture
def files(tmp_path):
    """Passages of 1 to 30 words, a dozen queries, and a run of five lines each."""
    folder, drawn = tmp_path / "files", random.Random(7)
    folder.mkdir()
    texts = [" ".join(drawn.choices(WORDS, k=drawn.randint(1, 30))) for _ in range(NUM_PASSAGES)]
    lines = [f"{row}\t{text} {row}\n" for row, text in enumerate(texts)]
    (folder / "passages.tsv").write_text("".join(lines))
    asked = [f"q{n}\t{' '.join(drawn.choices(WORDS, k=3))}\n" for n in range(NUM_QUERIES)]
    (folder / "queries.tsv").write_text("".join(asked))
    run = [f"q{n} Q0 {n + r} {r} {9 - r} x\n" for n in range(NUM_QUERIES) for r in range(1, 6)]
    (folder / "run.trec").write_text("".join(run))
    return folder


@pytest.fixture
def recipe(files, tiny_model, tiny_mono, tiny_duo):
    """A function that gives the recipe, with overrides."""
    text = RECIPE.format(folder=files, model=tiny_model, mono=tiny_mono, duo=tiny_duo)

    def load(*overrides):
        return load_recipe(text, overrides=overrides, source="foreseen")

    return load
