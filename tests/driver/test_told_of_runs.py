"""The table and the log say of a run what it really has."""

import logging

import pytest
from recipes import write_files

RECIPE = """
format: 1
name: told
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{dev: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
models: {{mono: {{path: {mono}}}, duo: {{path: {duo}}}}}
stages:
  given: {{do: read, runs: {{dev: {folder}/run.trec}}}}
  short: {{do: score, run: given, model: mono, k0: 100}}
  exact: {{do: score, run: given, model: mono, k0: 3}}
  pairs: {{do: score, run: exact, model: duo, k1: 50}}
  sum: {{do: aggregate, pairs: pairs, method: sum}}
evaluate: {{measures: [RR@10, AP], baseline: given}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture
def recipe(tmp_path, tiny_mono, tiny_duo):
    """The path of a recipe over a run of depth 3, which lacks some judged queries."""
    texts = ["the zebra", "a lease", "of shards", "rank a query", "run"]
    queries = {f"q{number}": text for number, text in enumerate(texts)}
    write_files(tmp_path, texts, queries, judged={"q0": "p1", "q2": "p0"})
    lines = [f"{q} Q0 p{r} {r} {9 - r} x\n" for q in ("q0", "q1") for r in (1, 2, 3)]
    (tmp_path / "run.trec").write_text("".join(lines))
    path = tmp_path / "told.yaml"
    path.write_text(RECIPE.format(folder=tmp_path, mono=tiny_mono, duo=tiny_duo))
    return path


def test_a_run_that_has_fewer_than_k0_or_k1_is_not_said_to_have_them(
    recipe, raypipe_here, tmp_path
):
    done = raypipe_here("pipeline", recipe, "--out", tmp_path / "work")
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()]
    told = {row[1]: row[2] for row in reversed(rows) if len(row) > 3}  # the first table counts
    assert told["short"] == "given, first 3 (of k0 100)"
    assert told["exact"] == "given, first 3"
    assert told["sum"] == "exact, first 3 (of k1 50)"


def test_a_night_says_once_which_judged_queries_its_runs_lack(
    recipe, raypipe_here, tmp_path, caplog
):
    """The first night, and those that compare their runs with the older ones."""
    caplog.set_level(logging.WARNING, "raypipe")
    runs = "given, short, exact, sum on dev"
    expected = [
        f"{runs}: 1 query of the qrels is not in the run and counts 0: q2",
        f"{runs}: 1 query of the run is not in the qrels and is left out: q1",
    ]
    for night in ("", "q2 0 p1 1\n"):
        with (tmp_path / "qrels.txt").open("a") as qrels:
            qrels.write(night)
        caplog.clear()
        assert raypipe_here("reindex", recipe, "--out", tmp_path / "work").returncode == 0
        assert caplog.messages == expected
    (tmp_path / "qrels.txt").write_text("q0 0 p1 1\nq2 0 p0 1\nq4 0 p0 1\n")
    caplog.clear()
    raypipe_here("reindex", recipe, "--out", tmp_path / "work")
    assert (
        f"{runs}: 2 queries of the qrels are not in the run and count 0: q2, q4" in caplog.messages
    )


def test_compared_runs_say_it_once_too(recipe, raypipe_here, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "raypipe")
    other = tmp_path / "other.trec"
    other.write_bytes((tmp_path / "run.trec").read_bytes())
    words = ("compare", tmp_path / "run.trec", other, "--qrels", tmp_path / "qrels.txt")
    assert raypipe_here(*words, "--measures", "RR").returncode == 0
    lines = [line for line in caplog.messages if "counts 0" in line]
    assert len(lines) == 1 and "run.trec, " in lines[0] and "other.trec: 1 query" in lines[0]
