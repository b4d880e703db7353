"""The recipe of a small invocation, and a watcher that takes notes."""

RECIPE = """
format: 1
name: small
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  dev: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt, only_judged: true}}
  all: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}, settings: {{segment_row: zero}}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 2}}
resources: {{backend: inline, device: cpu, shard_rows: 2, shard_tokens: 9}}
"""


class Watching:
    """What the watcher is told, in order; `act` is called at each commit."""

    def __init__(self, act=lambda store: None):
        self.told, self.act = [], act

    def expects(self, num_stages): ...

    def began(self, name, report):
        self.told.append(("began", str(name), report.num_planned, report.num_reused))

    def advanced(self, name, report):
        self.told.append(("advanced", str(name), report.num_done))
        self.act(str(name))

    def ended(self, name, completed):
        entry = completed.to_json()
        self.told.append(("ended", str(name), entry["shards"]["reused"], entry["reused"]))
