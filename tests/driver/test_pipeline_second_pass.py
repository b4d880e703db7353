"""How many queries needed exact search's second pass stands in the log and in summary.json."""

import json

import pytest

from raypipe.names import Role, of_stage

RECIPE = """
format: 1
name: repeated
collection: {{format: msmarco-v1, input: passages.tsv}}
queries: {{test: {{file: queries.tsv}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 5}}
resources: {{backend: inline, device: cpu, shard_queries: 2}}
"""
PARTS = str(of_stage("dense", "test", Role.PARTS))


@pytest.fixture
def run(tmp_path, tiny_model, raypipe_here):
    """A function that runs the recipe over so many passages of one text and 10 others."""
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(model=tiny_model))
    (tmp_path / "queries.tsv").write_text("q1\tzebra\nq2\tlease\nq3\tthe shards\n")

    def ran(copies):
        texts = ["zebra lease"] * copies + [f"rank {'query ' * n}" for n in range(10)]
        lines = (f"p{row}\t{text}\n" for row, text in enumerate(texts))
        (tmp_path / "passages.tsv").write_text("".join(lines))
        out = tmp_path / f"work-{copies}"
        done = raypipe_here("pipeline", tmp_path / "recipe.yaml", "--out", out)
        assert done.returncode == 0, done.stderr
        return out, json.loads((out / "summary.json").read_text())["stages"]

    return ran


def test_of_more_equal_vectors_than_there_are_spare_candidates_every_query_is_told(run):
    """Depth 5 keeps 37 candidates: of 60 equal ones they cannot be proved to be the first."""
    out, stages = run(60)
    told = {"searched": 3, "queries": 3, "share": 1.0}
    assert stages[PARTS]["second_pass"] == told
    assert [name for name in stages if "second_pass" in stages[name]] == [PARTS]
    (log,) = (out / "stores" / PARTS).glob("*/attempts.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    done = {each["shard"]: each["second_pass"] for each in events if each["event"] == "done"}
    assert done == {0: 1, 1: 2}
    records = [*(out / "stores" / PARTS).glob("*/shards/*.json")]
    assert records and not any("second_pass" in each.read_text() for each in records)
    _, again = run(60)
    assert again[PARTS]["reused"] and again[PARTS]["second_pass"] == told


def test_of_a_collection_that_is_scored_whole_no_query_needs_one(run):
    _, stages = run(10)
    assert stages[PARTS]["second_pass"] == {"searched": 3, "queries": 0, "share": 0.0}
