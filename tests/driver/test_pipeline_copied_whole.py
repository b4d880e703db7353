"""Whole builds of a changed collection, Lucene and rerankers included, equal those from nothing."""

import random

import pytest
from killed_jobs import durable_bytes
from recipes import invoke

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RECIPE = """
format: 1
name: whole
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}
models: {{tiny: {{path: {encoder}}}, mono: {{path: {mono}}}, duo: {{path: {duo}}}}}
stages:
  lucene: {{do: index}}
  bm25: {{do: search, index: lucene, depth: 20}}
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 20}}
  fused: {{do: fuse, runs: [bm25, dense], method: rrf, depth: 20}}
  mono: {{do: score, run: fused, model: mono, k0: 5}}
  duo: {{do: score, run: mono, model: duo, k1: 3}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
evaluate: {{measures: [nDCG@10], baseline: bm25, topics: six, relevance: grade 1}}
resources: {{backend: inline, device: cpu, shard_rows: 16, shard_tokens: 900, shard_queries: 3}}
"""


@pytest.fixture(scope="module")
def recipe(small_files, tiny_model, tiny_mono, tiny_duo, tmp_path_factory):
    """The lines of 50 passages, and a function that gives the recipe over such lines."""
    folder = tmp_path_factory.mktemp("whole")
    queries = (small_files / "queries.test.tsv").read_text().splitlines(keepends=True)
    (folder / "queries.tsv").write_text("".join(queries[:6]))
    asked = {query.split("\t")[0] for query in queries[:6]}
    judged = (small_files / "qrels.test.txt").read_text().splitlines(keepends=True)
    (folder / "qrels.txt").write_text("".join(x for x in judged if x.split()[0] in asked))
    places = {"folder": folder, "encoder": tiny_model}
    text = RECIPE.format(**places, mono=tiny_mono, duo=tiny_duo)

    def over(lines):
        (folder / "passages.tsv").write_text("".join(lines))
        return text

    lines = (small_files / "passages.tsv").read_text().splitlines(keepends=True)
    return lines[:50], over


def edited(lines, seed):
    """Some lines added, changed, moved, given twice, and some gone; every id stands once."""
    lines, rng = list(lines), random.Random(seed)
    for number in range(3):
        lines.insert(rng.randrange(len(lines)), f"new{seed}-{number}\t{text_of(rng.choice(lines))}")
        at = rng.randrange(len(lines))
        passage = lines[at].split("\t")[0]
        lines[at] = f"{passage}\tthe changed passage {seed} {number}\n"
        lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
        del lines[rng.randrange(len(lines))]
    lines.insert(0, f"first{seed}\tan inserted passage about files {seed}\n")
    return lines


def text_of(line):
    return line.split("\t")[1]


def measures(out):
    kept = {path.relative_to(out) for path in (out / "measures").rglob("*") if path.is_file()}
    return {name: (out / name).read_bytes() for name in kept}


def test_three_changed_collections_give_the_bytes_of_builds_from_nothing(recipe, tmp_path):
    lines, over = recipe
    invoke(over(lines), tmp_path / "copying")
    for seed in range(3):
        lines = edited(lines, seed)
        summary = invoke(over(lines), tmp_path / "copying").summary
        for store in ("tokens@tiny", "embeddings", "scores@mono.test", "scores@duo.test"):
            stage = summary["stages"][store]
            assert 0 < stage["copied"] < stage["rows"], (seed, store)
        fresh = tmp_path / f"fresh{seed}"
        invoke(over(lines), fresh)
        found, expected = durable_bytes(tmp_path / "copying"), durable_bytes(fresh)
        same = {name for name in expected if "count@collection" not in name}
        assert {name: found.get(name) for name in same} == {name: expected[name] for name in same}
        assert measures(tmp_path / "copying") == measures(fresh) != {}
