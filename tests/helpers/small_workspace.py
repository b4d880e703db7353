"""The small workspace: five passages, three queries, a dense run, a given one and their fusion."""

from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline

IDS = ["p0", "p1", "p2", "p3", "p4"]


TEXTS = ["the zebra", "a lease", "of shards", "rank a query", "run"]
SMALL = """
format: 1
name: small
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  dev: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}
  other: {{file: {folder}/queries.tsv, report: false}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 2}}
  given: {{do: read, runs: {{dev: {folder}/run.trec}}}}
  fused: {{do: fuse, runs: [given, dense], method: rrf, depth: 3}}
evaluate:
  measures: [RR@10]
  baseline: given
  topics: two of them
  relevance: grade 1
runs: {{tsv: true}}
resources: {{backend: inline, device: cpu, shard_rows: 2, shard_tokens: 9}}
"""


def write_small(folder):
    """The inputs of SMALL."""
    lines = (f"{i}\t{t}\n" for i, t in zip(IDS, TEXTS, strict=True))
    (folder / "passages.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("q1\ta zebra\nq2\tthe lease\nq3\trun\n")
    (folder / "qrels.txt").write_text("q1 0 p0 1\nq2 0 p4 1\n")
    (folder / "run.trec").write_text("q1 Q0 p3 1 9 x\nq1 Q0 p0 2 8 x\nq3 Q0 p1 1 7 x\n")


def run_small(folder, tiny_model, *overrides, until=None):
    """The workspace of SMALL, and what its invocation returned and said."""
    write_small(folder)
    said = []
    text = SMALL.format(folder=folder, model=tiny_model)
    recipe = load_recipe(text, overrides=overrides, source="small")
    options = Options(until=until)
    outcome = run_pipeline(recipe, folder / "work", options, watcher=Watcher(), say=said.append)
    return folder / "work", outcome, said
