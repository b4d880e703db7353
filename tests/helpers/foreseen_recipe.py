"""A recipe with every kind of work but Lucene's."""

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
