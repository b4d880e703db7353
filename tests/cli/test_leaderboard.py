import json
import os
import subprocess
import sys

import pytest
from small_board import GOOD, write

from raypipe.cli.main import run
from raypipe.leaderboard.boards import BOARDS, SCRIPTS, Board


@pytest.mark.slow
def test_check_loads_neither_torch_nor_ray_nor_java_nor_transformers(tmp_path):
    write(tmp_path / "run.tsv", GOOD)
    code = (
        "import sys; from raypipe.cli.main import run; "
        f"code = run(['leaderboard', 'check', {str(tmp_path / 'run.tsv')!r}, '--task', 'local']); "
        "print(code, [m for m in ('torch','ray','jnius','transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "(0, 'complete') []", done.stderr


def test_the_command_line_tells_every_rule_and_exits_2(tmp_path, raypipe_here):
    path = write(tmp_path / "run.tsv", GOOD.replace("7\t10\t1", "7\t10\t0"))
    done = raypipe_here("leaderboard", "check", path, "--task", "msmarco-passage")
    assert done.returncode == 2
    assert "BROKEN ranks" in done.stdout and "BROKEN query set" in done.stdout
    assert "ok     repeated passages" in done.stdout and "-      tag" in done.stdout
    assert raypipe_here("leaderboard", "check", path, "--task", "msmarco").returncode == 2


def test_the_template_is_json_on_stdout_that_pack_asks_to_be_filled_in(capsys):
    assert run(["leaderboard", "template"])[0] == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "team": "",
        "model_description": "",
        "paper": "",
        "code": "",
        "type": "full ranking",
    }
    assert run(["leaderboard", "template", "--task", "local"])[0] == 2


def test_what_a_board_requires_is_missing_and_files_that_are_not_there_are_told(tmp_path, capsys):
    def told(*given):
        options = ["--eval", "eval", "--id", "20261120-a", "--out", str(tmp_path / "out")]
        assert run(["leaderboard", "pack", *options, *given])[0] == 2
        return capsys.readouterr().err.splitlines()

    lacking = [
        f"error: --{name}: missing; msmarco-passage requires it" for name in ("dev", "metadata")
    ]
    assert told() == lacking and told("--dev", "dev") == lacking[1:]
    assert told("--metadata", "metadata") == lacking[:1]
    assert told("--task", "local") == ["error: eval: no such file"]
    files = "dev metadata dev-queries eval-queries qrels fill-dev fill-eval submissions".split()
    given = [word for name in files for word in (f"--{name}", name)]
    assert told(*given) == [f"error: {name}: no such file" for name in ("eval", *files)]
    assert not (tmp_path / "out").exists()
    check = "leaderboard check run --task msmarco-passage --queries queries --qrels qrels"
    assert run(check.split())[0] == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"error: {name}: no such file" for name in ("run", "queries", "qrels")]


@pytest.mark.fault(50, "a pipe in the place of metadata, or of an earlier submission's: refused")
def test_metadata_that_never_end_are_refused_unread(tmp_path, raypipe_here):
    run_file = write(tmp_path / "run.tsv", GOOD)
    whole, pipe = tmp_path / "whole.json", tmp_path / "earlier" / "20261101-a-metadata.json"
    whole.write_text("{}")
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for given in (["--metadata", pipe], ["--metadata", whole, "--submissions", pipe.parent]):
        sides = ["--dev", run_file, "--eval", run_file, "--id", "20261120-b"]
        done = raypipe_here("leaderboard", "pack", *sides, *given, "--out", tmp_path / "out")
        assert done.returncode == 2 and f"{pipe}: expected a file, found a pipe" in done.stderr
    assert not list(tmp_path.rglob("*.bz2"))


def test_a_board_with_a_script_of_its_own_is_one_entry(tmp_path, monkeypatch, capsys):
    def firsts(rankings, qrels):
        judged = {*zip(*(qrels[name].to_pylist() for name in qrels.column_names[:2]), strict=True)}
        return sum((query, found[0]) in judged for query, found in rankings.items()) / 4, 3

    monkeypatch.setitem(SCRIPTS, "A", firsts)
    monkeypatch.setitem(BOARDS, "mine", Board(task="mine", form="msmarco", measures=["A"]))
    path = str(write(tmp_path / "run", "q1\ta\t1\nq1\tb\t2\nq2\tb\t1\n"))
    qrels = str(write(tmp_path / "qrels", "q1 0 a 1\nq2 0 a 1\nq3 0 a 1\n"))
    given = ["--task", "mine", "--qrels", qrels]
    assert run(["leaderboard", "check", path, *given])[0] == 0
    assert "ok     measure: A: 0.25 over 3 queries of the qrels\n" in capsys.readouterr().out
    for task, told in (
        ("mine", "no qrels were named"),
        ("local", "local names none; `raypipe evaluate` computes any"),
    ):
        assert run(["leaderboard", "check", path, "--task", task])[0] == 0
        assert capsys.readouterr().out.endswith(f"\n  -      measure: {told}\n")
    broken = str(write(tmp_path / "broken", "q1\ta\t1\nq1\tb\t3\n"))
    assert run(["leaderboard", "check", broken, *given])[0] == 2
    assert "measure:" not in capsys.readouterr().out, "of a run with a broken rule"
    sides = ["--dev", path, "--eval", path, "--id", "me"]
    assert run(["leaderboard", "pack", *sides, *given, "--out", str(tmp_path)])[0] == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line[0] != " "] == [
        "submission", "dev", "eval", f"written: {tmp_path}/leaderboard/submissions/me"
    ]  # fmt: skip
    told = json.loads((tmp_path / "leaderboard" / "check.json").read_text())
    assert told["measure"] == {"A": 0.25}
