"""The commands `analyse`, on a small finished pipeline."""

import json

import pytest

from raypipe.cli.main import run

PIPELINE = """
format: 1
name: small
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
stages:
  one: {{do: read, runs: {{test: {folder}/one.trec}}}}
  two: {{do: read, runs: {{test: {folder}/two.trec}}}}
evaluate: {{measures: [RR@10], baseline: one}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture
def work(tmp_path):
    """Two runs of one query: p2 is second in the one and first in the other."""
    (tmp_path / "passages.tsv").write_text("p1\tthe zebra\np2\ta lease\np3\tof shards\n")
    (tmp_path / "queries.tsv").write_text("q1\ta lease\n")
    (tmp_path / "qrels.txt").write_text("q1 0 p2 1\n")
    (tmp_path / "one.trec").write_text("q1 Q0 p1 1 9 x\nq1 Q0 p2 2 8 x\n")
    (tmp_path / "two.trec").write_text("q1 Q0 p2 1 9 x\nq1 Q0 p3 2 8 x\n")
    (tmp_path / "recipe.yaml").write_text(PIPELINE.format(folder=tmp_path))
    assert run(["pipeline", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "work")])[0] == 0
    return str(tmp_path / "work")


def test_each_prints_tables_or_one_object(work, capsys):
    capsys.readouterr()
    for verb, line in (
        ("depth", "| one         | 1.0000 |"),
        ("fusion", "| one   | two  | 0.5000 |"),
        ("movers", "## movers: test"),
        ("queries", "| q1    | a lease | 1        | 0.5000 | 1.0000 |"),
    ):
        assert run(["analyse", verb, work])[0] == 0
        assert line in capsys.readouterr().out, verb
        assert run(["analyse", verb, work, "--json"])[0] == 0
        (section,) = json.loads(capsys.readouterr().out)["sections"]
        assert (section["name"], section["query_set"]) == (verb, "test")


def test_what_cannot_be_analysed_is_told(work, tmp_path, capsys):
    assert run(["analyse", "tradeoff", work])[0] == 2
    assert "expected a duoBERT stage" in capsys.readouterr().err
    assert run(["analyse", "depth", work, "--queries", "dev"])[0] == 2
    assert "--queries dev: expected one of test" in capsys.readouterr().err
    assert run(["analyse", "depth", str(tmp_path)])[0] == 2
    assert run(["analyse", "depth", str(tmp_path / "nothing")])[0] == 2
