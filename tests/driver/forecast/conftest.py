"""A small recipe with every kind of work but Lucene's, and its collection."""

import random

import pytest
from foreseen_recipe import RECIPE

from raypipe.config.load import load_recipe

WORDS = ("lease", "shard", "zebra", "rank", "run", "query", "passage", "the", "a", "of")
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
