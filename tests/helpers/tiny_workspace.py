"""A small pipeline and its run."""

from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline

RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv}}}}
models: {{minilm: {{path: {model}}}}}
stages:
  embeddings: {{do: encode, model: minilm}}
  dense: {{do: search, index: embeddings, depth: 5}}
resources: {{backend: inline, device: cpu, shard_tokens: 6000}}
stores: {stores}
"""


MODEL: list[object] = []


def run(files, out, stores, *overrides):
    text = RECIPE.format(files=files, stores=stores, model=MODEL[0])
    recipe = load_recipe(text, overrides=overrides, source="tiny")
    return run_pipeline(recipe, out, Options(), watcher=Watcher()).summary
