import json
import os
from itertools import zip_longest

import pytest

from raypipe.cli.main import run as run_verb
from raypipe.evaluation.run_files.runs import read_run

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def ranking(path):
    found: dict[str, list[str]] = {}
    for row in read_run(path).to_pylist():
        found.setdefault(row["query_id"], []).append(row["passage_id"])
    return found


@pytest.mark.ray
def test_single_verbs_give_what_the_pipeline_gives(exported, small_files, tmp_path, capsys):
    prepared, built, found = (tmp_path / name for name in "abc")
    passages = ("--format", "msmarco-v1", "--input", small_files / "passages.tsv")
    search = ("--queries", small_files / "queries.test.tsv", "--depth", 100)
    for told in (
        ("prepare", *passages, "--out", prepared),
        ("index", "--collection", prepared, "--out", built),
        ("search", "--index", built, *search, "--out", found, "--json"),
    ):
        status, _ = run_verb([str(word) for word in told])
        assert status == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["stages"]["lucene"]["reused"]
    ours = ranking(found / "runs/queries/search.trec")
    assert ours == ranking(exported / "runs/test/bm25.trec")


def test_run_files_are_fused_in_turns(exported, tmp_path):
    runs = [f"--runs={exported}/runs/test/{name}.trec" for name in ("bm25", "dense")]
    told = ["fuse", *runs, "--method", "alternate", "--depth", "4", "--out", str(tmp_path / "f")]
    assert run_verb(told)[0] == 0
    bm25, dense = (ranking(exported / f"runs/test/{name}.tsv") for name in ("bm25", "dense"))
    fused = ranking(tmp_path / "f" / "fused.trec")
    assert fused.keys() == dense.keys()
    for query, passages in fused.items():
        turns = zip_longest(bm25.get(query, []), dense[query])
        taken = dict.fromkeys(p for turn in turns for p in turn if p is not None)
        assert passages == list(taken)[:4]


def test_bad_arguments_are_all_told(tmp_path, capsys):
    runs = [f"--runs={tmp_path}/{name}" for name in "xy"]
    assert run_verb(["fuse", *runs, "--method", "rrf", "--out", str(tmp_path / "f")])[0] == 2
    assert capsys.readouterr().err.count("no such file") >= 2
    assert os.listdir(tmp_path) == []
