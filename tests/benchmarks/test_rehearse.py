"""A small rehearsal from end to end, as `tests/benchmarks/rehearse.py` runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import rehearse
from rehearsal.told import kept

from raypipe.leaderboard.boards import BOARDS
from raypipe.leaderboard.submission import metadata_template

WORDS = "the lease of a shard is held by one driver and the rank of a passage follows its score"
INLINE = ["resources.backend=inline", "resources.device=cpu"]
ONE_PERCENT = 88_418


@pytest.fixture
def given(tmp_path):
    """Arguments with files to imitate."""
    like, queries = tmp_path / "like.tsv", tmp_path / "queries.tsv"
    words = WORDS.split()
    lines = [" ".join(words[(row * 3 + at) % 18] for at in range(12)) for row in range(200)]
    like.write_text("".join(f"{row}\t{line}\n" for row, line in enumerate(lines)))
    queries.write_text("".join(f"{n}\trank of shard {words[n % 18]}\n" for n in range(100)))
    out = tmp_path / "out"
    return ["--out", str(out), "--like", str(like), "--queries", str(queries), "--seed", "3"]


def test_a_missing_file_is_named_and_nothing_is_begun(given, capsys, tmp_path):
    (tmp_path / "queries.tsv").unlink()
    assert rehearse.main([*given, "--passages", "50"]) == 2
    assert "queries.tsv" in capsys.readouterr().err
    assert not (tmp_path / "out" / "workspace").exists()


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_size_below_one_is_refused(given, number):
    with pytest.raises(SystemExit) as refused:
        rehearse.main([*given, "--passages", number])
    assert refused.value.code == 2


@pytest.mark.slow
def test_the_code_of_a_failed_invocation_is_returned_and_its_figures_are_kept(
    given, tmp_path, monkeypatch
):
    given += ["--passages", "50", "--queries-at-most", "2", "resources.shard_rows=0"]
    assert rehearse.main(given) == 2
    assert [one["exit_code"] for one in kept(tmp_path / "out")] == [2]


@pytest.mark.jvm
@pytest.mark.slow
def test_it_stops_at_a_stage_goes_on_from_there_and_makes_every_run(
    given, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(rehearse, "GROUPS", ("lucene", "mono"))
    given += ["--passages", "600", "--queries-at-most", "3", *INLINE]
    assert rehearse.main([*given, "--until", "lucene"]) == 0
    assert not (tmp_path / "out" / "workspace" / "runs").exists()
    capfd.readouterr()
    assert rehearse.main(given) == 0
    tables = capfd.readouterr().out
    assert "600 passages, 3 queries" in tables and "| lucene " in tables
    groups = [one["group"] for one in kept(tmp_path / "out")]
    assert groups == ["lucene", "lucene", "mono", "all"]
    runs = tmp_path / "out" / "workspace" / "runs" / "dev"
    names = {"bm25", "repbert", "fused", "mono", "duo-sum", "duo-binary", "duo-min", "duo-max"}
    assert {file.stem for file in runs.glob("*.trec")} == names | {"duo-sample"}


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_one_percent_is_ranked_measured_and_packed(given, tmp_path):
    given += ["--passages", str(ONE_PERCENT), "--queries-at-most", "70", "--eval-queries", "30"]
    assert rehearse.main(given) == 0
    out = tmp_path / "out"
    summary = json.loads((out / "workspace" / "summary.json").read_bytes())
    assert summary["stages"]["embeddings"]["rows"] == ONE_PERCENT
    metadata = tmp_path / "metadata.json"
    filled = metadata_template(BOARDS["msmarco-passage"]) | {
        "team": "t",
        "model_description": "m",
    }
    metadata.write_text(json.dumps(filled))
    runs, data = out / "workspace" / "runs", out / "msmarco"
    arguments = ["--dev", runs / "dev" / "duo-sum.tsv", "--eval", runs / "eval" / "duo-sum.tsv"]
    arguments += ["--dev-queries", data / "queries.dev.small.tsv"]
    arguments += ["--eval-queries", data / "queries.eval.small.tsv"]
    arguments += ["--qrels", data / "qrels.dev.small.tsv", "--task", "msmarco-passage"]
    arguments += ["--id", "20261123-rehearsal", "--metadata", metadata, "--out", tmp_path / "board"]
    command_line = [sys.executable, "-m", "raypipe", "leaderboard", "pack", *map(str, arguments)]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    packed = Path(tmp_path / "board").rglob("*.txt.bz2")
    assert sorted(file.name for file in packed) == ["dev.txt.bz2", "eval.txt.bz2"]
