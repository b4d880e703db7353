"""A folder of snapshots of a growing collection in LongEval's layout, and a recipe over them."""

import json

WORDS = "zebra lease shard run query rank passage of the a".split()
SNAPSHOTS = ("lag-2", "lag-9", "lag-10")
RECIPE = """
format: 1
name: growing
collection:
  format: jsonl
  fields: {{id: id, title: title, body: abstract}}
  input: documents
  snapshots: snapshots
queries: {{test: {{file: queries.txt, qrels: qrels.txt}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 8}}
evaluate: {{measures: [nDCG@10], baseline: dense}}
resources: {{backend: inline, device: cpu, threads: 1}}
"""


def paper(number):
    """A paper whose text depends on its number alone; every fifth has no abstract."""
    words = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 8)]
    abstract = None if number % 5 == 0 else " ".join(words[3:])
    title = f"{' '.join(words[:3])} {number}"
    return {"id": f"{number}", "title": title, "abstract": abstract, "authors": []}


def write_snapshot(folder, numbers, judged):
    """A snapshot with these papers and four queries; query number -> relevant paper."""
    (folder / "documents").mkdir(parents=True)
    half = len(numbers) // 2
    for part, some in enumerate((numbers[:half], numbers[half:]), 1):
        lines = [json.dumps(paper(number)) + "\n" for number in some]
        (folder / "documents" / f"part-{part}.jsonl").write_text("".join(lines))
    queries = [f"q{n}\t{WORDS[n]} {WORDS[n + 3]}\n" for n in range(4)]
    (folder / "queries.txt").write_text("".join(queries))
    if judged:
        lines = [f"q{query} 0 {number} 1\n" for query, number in judged.items()]
        (folder / "qrels.txt").write_text("".join(lines))


def write_growing(folder, model):
    """The recipe's path; three snapshots of 20, 22 and 24 papers, the last without judgements."""
    write_snapshot(folder / "snapshots/lag-2", [*range(20)], {0: 3, 1: 7, 2: 11})
    write_snapshot(folder / "snapshots/lag-9", [*range(1, 23)], {0: 3, 1: 8, 3: 20})
    write_snapshot(folder / "snapshots/lag-10", [*range(2, 26)], {})
    recipe = folder / "growing.yaml"
    recipe.write_text(RECIPE.format(model=model))
    return recipe
