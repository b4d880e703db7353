"""--break-ties rank, in every command that reads a run file with ties."""

import json

import pytest
from foreign_tools import AS_WRITTEN, BY_ID, FOREIGN

from raypipe.cli.main import run as command
from raypipe.evaluation.run_files.runs import read_run

RUN = str(FOREIGN / "ranx.run.trec")
"""Passages d10 and d2 of q1 tie; the file has d10 first, trec_eval d2."""


@pytest.fixture
def qrels(tmp_path):
    path = tmp_path / "qrels"
    path.write_text("q1 0 d10 1\nq2 0 007 1\n")
    return str(path)


def measured(capsys, *arguments):
    code, reason = command([*arguments, "--measures", "RR", "--json"])
    assert code == 0, reason
    return json.loads(capsys.readouterr().out)


def test_evaluate_measures_the_file_as_trec_eval_or_as_written(qrels, capsys):
    by_id = measured(capsys, "evaluate", RUN, "--qrels", qrels)
    kept = measured(capsys, "evaluate", RUN, "--qrels", qrels, "--break-ties", "rank")
    assert by_id[RUN]["mean"]["RR"] == pytest.approx((1 / 3 + 1) / 2)
    assert kept[RUN]["mean"]["RR"] == pytest.approx((1 / 2 + 1) / 2)


def test_compare_measures_the_files_as_trec_eval_or_as_written(qrels, capsys):
    arguments = ["compare", RUN, str(FOREIGN / "pyterrier.res.gz"), "--qrels", qrels]
    found = measured(capsys, *arguments)
    kept = measured(capsys, *arguments, "--break-ties", "rank")
    ranks = [(row["mean"] * 2 - 1) for row in found["comparisons"]]
    assert ranks == pytest.approx([1 / 3, 1 / 3])
    assert [row["mean"] * 2 - 1 for row in kept["comparisons"]] == pytest.approx([1 / 2, 1 / 2])


def test_a_check_names_the_flag_and_with_it_says_what_to_hand_in(tmp_path, capsys):
    run = tmp_path / "run.trec"
    run.write_text("1 Q0 10 1 2 me\n1 Q0 9 2 1 me\n1 Q0 8 3 1 me\n")
    check = ["leaderboard", "check", str(run), "--task", "trec-dl", "--allow-fewer-rows"]
    assert command(check)[0] == 2
    told = capsys.readouterr().out
    assert "BROKEN scores: 1 lines do not score below the line above" in told
    assert "order them by id; --break-ties rank keeps the file's order of them" in told
    assert command([*check, "--break-ties", "rank"])[0] == 0
    assert "hand in what pack --break-ties rank writes, not this file" in capsys.readouterr().out
    run.write_text(run.read_text() + "1 Q0 7 4 1.5 me\n")
    assert command([*check, "--break-ties", "rank"])[0] == 2
    told = capsys.readouterr().out
    assert "--break-ties" not in told and f"`raypipe fuse --runs {run} --depth 4 --out" in told


def test_pack_refuses_ties_as_check_does_and_writes_either_order_if_told(tmp_path, capsys):
    run = tmp_path / "run.trec"
    run.write_text("1 Q0 10 1 2 me\n1 Q0 8 2 1 me\n1 Q0 9 3 1 me\n")
    out = tmp_path / "out"
    pack = ["leaderboard", "pack", "--task", "trec-dl", "--id", "me", "--eval"]
    assert command([*pack, str(run), "--out", str(out)])[0] == 2 and not out.exists()
    assert "--break-ties rank keeps the file's order" in capsys.readouterr().err
    by_id = ["fuse", "--runs", str(run), "--depth", "9", "--out", str(tmp_path)]
    assert command(by_id)[0] == 0
    for name, given, expected in (
        ("a", [str(run), "--break-ties", "rank"], ["10", "8", "9"]),
        ("b", [str(tmp_path / "fused.trec")], ["10", "9", "8"]),
    ):
        assert command([*pack, *given, "--out", str(tmp_path / name)])[0] == 0
        written = read_run(tmp_path / name / "leaderboard" / "submissions" / "me" / "eval.trec")
        assert written["passage_id"].to_pylist() == expected
        assert len(set(written["score"].to_pylist())) == 3


def test_fuse_reads_its_runs_with_that_order(tmp_path):
    other = tmp_path / "other"
    other.write_text("q2 Q0 007 1 1 x\n")
    for ties, expected in (("id", BY_ID), ("rank", AS_WRITTEN)):
        told = ["fuse", "--runs", RUN, "--runs", str(other), "--method", "alternate"]
        assert command([*told, "--out", str(tmp_path / ties), "--break-ties", ties])[0] == 0
        found = read_run(tmp_path / ties / "fused.trec").to_pylist()
        pairs = [(row["query_id"], row["passage_id"]) for row in found]
        assert pairs == expected


def test_another_order_is_refused_by_the_words_that_there_are(qrels, capsys):
    assert command(["evaluate", RUN, "--qrels", qrels, "--break-ties", "score"])[0] == 2
    assert (
        "'--break-ties': Value error, 'score' is not one of 'id', 'rank'" in capsys.readouterr().err
    )


def test_every_command_takes_measures_with_several_parameters(qrels, capsys):
    given = ["--qrels", qrels, "--measures", "SetP(rel=1, relative=True),P@2", "--json"]
    names = ["SetP(rel=1,relative=True)", "P@2"]
    assert command(["evaluate", RUN, *given])[0] == 0
    assert [*json.loads(capsys.readouterr().out)[RUN]["mean"]] == names
    assert command(["compare", RUN, str(FOREIGN / "pyterrier.res.gz"), *given])[0] == 0
    rows = json.loads(capsys.readouterr().out)["comparisons"]
    assert [*dict.fromkeys(row["measure"] for row in rows)] == names
