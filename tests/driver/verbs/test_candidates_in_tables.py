"""Candidates without ranks and scores are scored from a table, and their scores leave as one."""

import gzip
import json
import shutil

import pandas as pd
import pytest
from recipes import invoke

from raypipe.cli.main import run as command
from raypipe.driver.upkeep.export import export
from raypipe.errors import InputError

PASSAGES = {
    "p0": "the zebra",
    "007": "a lease",
    "7": "of shards",
    "p3": "rank a query",
    "p#4": "run",
}
QUERIES = {"2": "a zebra", "q1": "the lease"}
ROWS = [("q1", "7"), ("2", "p#4"), ("q1", "007"), ("2", "p0"), ("q1", "p3")]
RECIPE = """
format: 1
name: candidates
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  dev: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}
models: {{mono: {{path: {mono}}}, duo: {{path: {duo}}}}}
stages:
  given: {{do: read, runs: {{dev: {folder}/{file}}}}}
  {stages}
evaluate: {{measures: [RR@10], baseline: given, topics: all, relevance: grade 1}}
resources: {{backend: inline, device: cpu}}
"""
MONO = "mono: {do: score, run: given, model: mono, k0: 3}"
DUO = "duo: {do: score, run: mono, model: duo, k1: 2}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    for name, texts in (("passages", PASSAGES), ("queries", QUERIES)):
        lines = [f"{key}\t{text}\n" for key, text in texts.items()]
        (folder / f"{name}.tsv").write_text("".join(lines))
    (folder / "qrels.txt").write_text("q1 0 7 1\n2 0 p0 1\n")
    frame = pd.DataFrame(ROWS, columns=["query_id", "passage_id"]).assign(note="x, y")
    frame.to_parquet(folder / "run.parquet")
    frame.to_csv(folder / "run.csv", index=False)
    text = frame.to_csv(sep="\t", index=False)
    (folder / "run.tsv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.fixture
def run(folder, tiny_mono, tiny_duo, tmp_path):
    """Runs a recipe over a file; the settings of its monoBERT model name a weight of a blend."""
    blending = shutil.copytree(tiny_mono, tmp_path / "blending")
    settings = json.loads((blending / "raypipe.json").read_text())
    (blending / "raypipe.json").write_text(json.dumps({**settings, "blend": 50}))

    def run(file, *stages):
        paths = {"folder": folder, "mono": blending, "duo": tiny_duo}
        text = RECIPE.format(file=file, stages="\n  ".join(stages), **paths)
        return invoke(text, tmp_path / "work")

    return run


@pytest.mark.slow
def test_scores_of_every_form_join_the_table_by_its_keys(folder, run, tmp_path):
    found = []
    for file in ("run.parquet", "run.csv", "run.tsv.gz"):
        outcome = run(file, MONO, DUO)
        stores, out = tmp_path / "work" / "stores", tmp_path / file
        assert export(stores / "scores@mono.dev", "parquet", out / "mono") == len(ROWS)
        assert export(stores / "scores@duo.dev", "parquet", out / "duo") == 4
        scores = pd.read_parquet(out / "mono" / "scores.parquet")
        assert list(scores.columns) == ["query_id", "passage_id", "score"]
        joined = pd.read_parquet(folder / "run.parquet").merge(
            scores, on=["query_id", "passage_id"], validate="one_to_one"
        )
        assert sorted(zip(joined.query_id, joined.passage_id, strict=True)) == sorted(ROWS)
        assert joined.score.notna().all() and joined.score.nunique() == len(ROWS)
        pairs = pd.read_parquet(out / "duo" / "pairs.parquet")
        assert list(pairs.columns) == ["query_id", "passage_id", "other_id", "probability"]
        found.append((joined.score.tolist(), pairs.to_dict("list")))
        runs = [line.split() for line in open(tmp_path / "work" / "runs" / "dev" / "mono.trec")]
        best = joined.sort_values("score", ascending=False).groupby("query_id").passage_id
        ranked = {}
        for query, _, passage, *_ in runs:
            ranked.setdefault(query, []).append(passage)
        assert ranked == {query: list(ids) for query, ids in best}
    assert found[0] == found[1] == found[2]
    assert "candidates without ranks and scores, in the order of their file" in str(outcome)
    assert "mono: no blend, since given has no order of its own" in str(outcome)


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        (MONO.replace("3", "2"), "up to 3 for a query, of which k0 2 would take .* write k0: 3 or"),
        (
            "duo: {do: score, run: given, model: duo, k1: 2}",
            "up to 3 for a query, of which k1 2 would take .* write k1: 3 or more",
        ),
        (MONO.replace("k0: 3", "k0: 3, blend: 1"), "to blend with; write blend: 0"),
        (
            f"{MONO}\n  both: {{do: fuse, runs: [given, mono], method: rrf, depth: 3}}",
            "stages.both: given has candidates without ranks and scores, and fuse needs their",
        ),
    ],
)
def test_what_would_take_their_place_in_the_file_for_an_order_is_refused(run, stage, told):
    with pytest.raises(InputError, match=told):
        run("run.csv", stage)


@pytest.mark.slow
def test_the_verb_scores_a_table_and_evaluate_refuses_it(folder, tiny_mono, tmp_path, capsys):
    files = {"run": "run.csv", "collection": "passages.tsv", "queries": "queries.tsv"}
    options = [f"--{name}={folder}/{file}" for name, file in files.items()]
    told = ["score", *options, f"--model={tiny_mono}", f"--out={tmp_path}/out", "--inline"]
    assert command(told)[0] == 0
    out = tmp_path / "table"
    stores = tmp_path / "out" / "stores"
    assert (
        command(["export", f"{stores}/scores@score.queries", "--to=parquet", f"--out={out}"])[0]
        == 0
    )
    scores = pd.read_parquet(out / "scores.parquet")
    assert sorted(zip(scores.query_id, scores.passage_id, strict=True)) == sorted(ROWS)
    capsys.readouterr()
    assert command([*told, "--k0=2"])[0] == 2
    assert "write k0: 3 or more (--k0 of raypipe score)" in capsys.readouterr().err
    assert command(["evaluate", f"{folder}/run.csv", f"--qrels={folder}/qrels.txt"])[0] == 2
    assert "run.csv: expected a rank or a score for each passage" in capsys.readouterr().err
