from collections.abc import Callable
from typing import Any

import pytest

from raypipe.config.load import load_recipe
from raypipe.errors import InputError

RECIPE = """\
format: 1
name: tiny
collection: {format: msmarco-v1, input: collection.tsv}
queries:
  dev:  {file: dev.tsv, qrels: dev.txt, report: false}
  test: {file: test.tsv, qrels: test.txt}
models:
  encoder: {path: minilm}
stages:
  lucene:     {do: index}
  embeddings: {do: encode, model: encoder}
  bm25:       {do: search, index: lucene}
  dense:      {do: search, index: embeddings}
  fused:      {do: fuse, runs: [bm25, dense], method: rrf}
evaluate: {measures: [nDCG@10, "RR(rel=2)@10"], baseline: bm25}
"""


@pytest.fixture
def text() -> str:
    """A sound recipe that has every part; stages begin in line 9."""
    return RECIPE


@pytest.fixture
def problems() -> Callable[..., list[str]]:
    """The problems that loading ends with."""

    def find(recipe: str, **arguments: Any) -> list[str]:
        with pytest.raises(InputError) as caught:
            load_recipe(recipe, **arguments)
        return caught.value.problems

    return find
