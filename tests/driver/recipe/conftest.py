"""Invocations of a recipe with mono and duo stages."""

import shutil

import numpy as np
import pytest
from recipes import invoke

RECIPE = """
format: 1
name: reranking
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}}}
models: {{minilm: {{path: {encoder}}}, mono: {{path: {mono}}}, duo: {{path: {duo}}}}}
stages:
  first: {{do: read, runs: {{test: {run}}}}}
  mono: {{do: score, run: first, model: mono, k0: 12}}
  duo: {{do: score, run: mono, model: duo, k1: 4}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
  duo-min: {{do: aggregate, pairs: duo, method: min, k1: 3, tail: drop}}
  duo-sample: {{do: aggregate, pairs: duo, method: sample, m: 2, seed: 5}}
{more}
evaluate: {{measures: ["nDCG@10", "R@20"], baseline: first}}
resources: {{backend: inline, device: cpu, shard_tokens: 6000, shard_queries: 7}}
stores: {stores}
"""


DEPTH = 20


@pytest.fixture(scope="session")
def files(small_files, tmp_path_factory):
    """The small collection, and a run of 20 seeded candidates for each test query."""
    folder = shutil.copytree(small_files, tmp_path_factory.mktemp("files") / "files")
    rng = np.random.default_rng(3)
    passages = [x.split("\t")[0] for x in (folder / "passages.tsv").read_text().splitlines()]
    queries = [x.split("\t")[0] for x in (folder / "queries.test.tsv").read_text().splitlines()]
    lines = []
    for query in queries:
        chosen = rng.choice(100, DEPTH, replace=False)
        for rank, place in enumerate(chosen, 1):
            lines.append(f"{query} Q0 {passages[place]} {rank} {50.0 - rank} first\n")
    (folder / "run.trec").write_text("".join(lines))
    return folder


@pytest.fixture(scope="session")
def run(files, tiny_model, tiny_mono, tiny_duo):
    def go(out, stores, *overrides, more="", **options):
        text = RECIPE.format(
            more=more,
            files=files,
            run=files / "run.trec",
            stores=stores,
            encoder=tiny_model,
            mono=tiny_mono,
            duo=tiny_duo,
        )
        return invoke(text, out, *overrides, **options).summary

    return go


@pytest.fixture(scope="session")
def finished(run, tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    return root, run(root / "work", root / "stores")
