"""A training's recipe as text, and loading it with overrides."""

from pathlib import Path

from raypipe.config.load import load_training

RECIPE = """
format: 1
name: mine
model: {start: minilm, preset: monobert}
collections:
  docs: {format: msmarco-v1, input: passages.tsv}
train:
  docs:
    collection: docs
    queries: q.tsv
    qrels: qrels.txt
    negatives: {runs: run.trec, first: 2, last: 5}
dev:
  docs: {collection: docs, queries: dq.tsv, qrels: dqrels.txt, run: drun.trec}
guard:
  test: {queries: tq.tsv}
loss: {name: cross-entropy}
steps: 100
batch: 4
optimiser: {warmup: 50}
validate: {every: 100}
"""


def load(*overrides, base=Path("/r")):
    return load_training(RECIPE, overrides=overrides, base=base)
