"""One file has one verdict: `check` refuses what `pack` refuses, for the same rules."""

import json
import re

import pytest
from small_board import GOOD, METADATA, SMALL, write

from raypipe.cli.main import run as command
from raypipe.leaderboard.boards import BOARDS

QUERIES = "7\ta\n9\tb\n"
TREC = "7 Q0 10 1 3.5 x\n7 Q0 11 2 3 x\n7 Q0 12 3 2 x\n9 Q0 5 1 3 x\n9 Q0 6 2 2 x\n9 Q0 99 3 1 x\n"

FILES = {
    "good": (GOOD, None),
    "good-trec": (TREC, None),
    "deep": (GOOD + "7\t13\t4\n", "depth"),
    "short": (GOOD.replace("9\t99\t3\n", ""), "rows"),
    "ranks": (GOOD.replace("7\t12\t3", "7\t12\t4"), "ranks"),
    "rank-0": (GOOD.replace("7\t10\t1", "7\t10\t0"), "ranks"),
    "trec-ranks": (TREC.replace(" 10 1 ", " 10 0 "), "ranks"),
    "trec-order": (TREC.replace(" 11 2 3 ", " 11 2 9 "), "scores"),
    "trec-ties": (TREC.replace(" 11 2 3 ", " 11 2 3.5 "), "scores"),
    "trec-tags": (TREC.replace("3 1 x\n", "3 1 y\n"), "tag"),
    "twice": (GOOD.replace("7\t11\t", "7\t10\t"), "repeated passages"),
    "ids": (GOOD.replace("\t99\t", "\t100\t"), "passage ids"),
    "letters": (GOOD.replace("\t99\t", "\td\t"), "passage ids"),
    "query-ids": (GOOD.replace("9\t5", "q9\t5"), "query ids"),
    "one-query": (GOOD[: GOOD.index("9\t5")], "query set"),
    "blanks": (GOOD.replace("7\t11\t2", "7 11 2"), "file format"),
}
"""A file, and a rule that it breaks."""
OF_ONE_TASK = {"tag": "small-trec", "file format": "small"}


@pytest.fixture
def boards(monkeypatch):
    """A board of MS MARCO's form and one of TREC's, with the same ids and depth."""
    small = SMALL.model_copy(update={"task": "small", "query_sets": {}})
    monkeypatch.setitem(BOARDS, "small", small)
    of_trec = {"task": "small-trec", "form": "trec", "facts": None, "dated": False}
    monkeypatch.setitem(BOARDS, "small-trec", small.model_copy(update=of_trec))


@pytest.mark.parametrize("more", [[], ["--allow-fewer-rows"], ["--break-ties", "rank"]], ids=str)
@pytest.mark.parametrize("task", ["small", "small-trec"])
@pytest.mark.parametrize("name", FILES)
def test_check_and_pack_break_the_same_rules_of_one_file(
    boards, tmp_path, capsys, name, task, more
):
    text, rule = FILES[name]
    path, queries = str(write(tmp_path / "run", text)), str(write(tmp_path / "queries", QUERIES))
    check = ["leaderboard", "check", path, "--task", task, "--queries", queries, *more]
    code = command(check)[0]
    checked = capsys.readouterr().err.splitlines()
    given = ["--eval", path, "--eval-queries", queries, "--id", "20261120-a", "--task", task]
    if task == "small":
        good, metadata = write(tmp_path / "good", GOOD), write(tmp_path / "m", json.dumps(METADATA))
        given += ["--dev", str(good), "--metadata", str(metadata)]
    out = tmp_path / "out"
    packed = command(["leaderboard", "pack", *given, *more, "--out", str(out)])[0]
    told = capsys.readouterr().err.replace("error: eval: ", "error: ").splitlines()
    assert (packed, told) == (code, checked)
    assert out.exists() == (code == 0)
    if not more:
        is_broken = rule is not None and OF_ONE_TASK.get(rule, task) == task
        assert code == (2 if is_broken else 0)
        assert not is_broken or any(line.startswith(f"error: {rule}: ") for line in told)


def test_qrels_that_judge_no_query_of_the_run_are_refused_by_both(boards, tmp_path, capsys):
    path, qrels = write(tmp_path / "run", GOOD), write(tmp_path / "qrels", "1 0 5 1\n")
    metadata = write(tmp_path / "metadata.json", json.dumps(METADATA))
    given = ["--task", "small", "--qrels", str(qrels)]
    assert command(["leaderboard", "check", str(path), *given])[0] == 2
    assert f"error: measure: {qrels} judges no query of the run" in capsys.readouterr().err
    given += ["--eval", str(path), "--dev", str(path), "--id", "20261120-a"]
    given += ["--metadata", str(metadata), "--out", str(tmp_path / "out")]
    assert command(["leaderboard", "pack", *given])[0] == 2
    assert f"error: dev: measure: {qrels} judges no query" in capsys.readouterr().err


def test_a_query_with_too_few_rows_is_told_with_the_options_that_help(boards, tmp_path, capsys):
    path = write(tmp_path / "run", FILES["short"][0])
    assert command(["leaderboard", "check", str(path), "--task", "small"])[0] == 2
    told = capsys.readouterr().err
    assert "by pack --fill-dev or --fill-eval, or accept them with --allow-fewer-rows" in told


@pytest.mark.parametrize("name", ["deep", "trec-ranks", "trec-order"])
def test_the_command_that_is_told_mends_the_file(boards, tmp_path, capsys, name):
    path = write(tmp_path / "run", FILES[name][0])
    check = ["leaderboard", "check", "--task", "small-trec"]
    assert command([*check, str(path)])[0] == 2
    (words,) = set(re.findall("`raypipe (.*?)`", capsys.readouterr().err))
    assert command(words.replace("FOLDER", str(tmp_path / "cut")).split())[0] == 0
    assert command([*check, str(tmp_path / "cut" / "fused.trec")])[0] == 0


def test_rows_of_an_earlier_run_are_checked_too(boards, tmp_path, capsys):
    path = write(tmp_path / "run", FILES["short"][0])
    wrong = write(tmp_path / "wrong", "9\t5\t1\n9\t100\t2\n")
    pack = ["leaderboard", "pack", "--task", "small-trec", "--eval", str(path), "--id", "a"]
    pack += ["--out", str(tmp_path / "out"), "--fill-eval"]
    assert command([*pack, str(wrong)])[0] == 2
    told = capsys.readouterr().err
    assert "error: eval: passage ids: 1 ids are not in the collection" in told
    assert command([*pack, str(write(tmp_path / "right", "9\t5\t1\n9\t98\t2\n"))])[0] == 0
    assert "ok     filled: 1 rows of 1 queries from right" in capsys.readouterr().out
