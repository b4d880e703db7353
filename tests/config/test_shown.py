"""Every piece of a recipe that docs/ shows is one: alone, or in place of a whole recipe's keys."""

import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest
import yaml

from raypipe.config.load import load_recipe, load_training, verb_of

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```yaml\n([\s\S]*?)^```$|((?:^    .*\n)+)", re.MULTILINE)
ENV = {"MODELS": "/models", "MSMARCO": "/msmarco"}
PIPELINE = """
format: 1
name: whole
collection: {format: msmarco-v1, input: passages.tsv}
queries:
  dev: {file: dev.tsv, qrels: dev.txt, report: false}
  test: {file: test.tsv, qrels: test.txt}
models: {minilm: {path: minilm}, mono: {path: mono}, duo: {path: duo}}
stages:
  lucene: {do: index}
  bm25: {do: search, index: lucene}
  vectors: {do: encode, model: minilm}
  dense: {do: search, index: vectors}
  fused: {do: fuse, runs: [bm25, dense], method: rrf}
"""
TRAINING = """
format: 1
name: whole
model: {start: bert, preset: monobert}
collections:
  docs: {format: msmarco-v1, input: passages.tsv}
  msmarco: {format: msmarco-v1, input: passages.tsv}
steps: 100000
batch: 2
optimiser: {rate: 1.0e-3}
"""


KEY = re.compile(r"(#.*\n)*[\w-]+:\s")


def pieces():
    """Each block of the pages that begins with a key of YAML, with its page."""
    for page in sorted(DOCS.glob("*.md")):
        for fenced, indented in BLOCK.findall(page.read_text()):
            text = fenced or textwrap.dedent(indented)
            if KEY.match(text):
                piece = yaml.safe_load(text)
                if "depths" in piece:  # a task of a leaderboard, which tests/leaderboard reads
                    continue
                yield pytest.param(piece, id=f"{page.stem}-{'-'.join(piece)}"[:60])


PIECES = list(pieces())


def test_pieces_are_found_in_the_pages():
    pages = Counter(piece.id.partition("-")[0] for piece in PIECES)
    assert pages["recipes"] == 4 and pages["collections"] == 3 and pages["models"] == 4


def test_the_page_of_recipes_shows_the_recipe_of_the_readme_which_is_run():
    ((readme, _),) = (
        each for each in BLOCK.findall((DOCS.parent / "README.md").read_text()) if each[0]
    )
    assert yaml.safe_load(readme) in [piece.values[0] for piece in PIECES if "recipes" in piece.id]


@pytest.mark.parametrize("piece", PIECES)
def test_a_recipe_or_a_piece_of_one_that_a_page_shows_is_taken(piece):
    if all(isinstance(each, dict) and "do" in each for each in piece.values()):
        whole = yaml.safe_load(PIPELINE)
        whole["stages"] |= piece
    elif "format" in piece:
        whole = piece
    else:
        whole = yaml.safe_load(TRAINING if "loss" in piece else PIPELINE)
        models = whole.get("models", {}) | piece.get("models", {})
        whole |= piece | ({"models": models} if models else {})
    text = yaml.safe_dump(whole, sort_keys=False)
    load = load_training if verb_of(text) == "train" else load_recipe
    assert load(text, env=ENV, base=Path("/here")).name == whole["name"]
