import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from raypipe.cli.main import run as run_command
from raypipe.driver.verbs.fuse_files import fuse_files
from raypipe.evaluation.run_files.runs import read_run


def test_run_files_are_fused_by_their_ids(tmp_path):
    one, two = tmp_path / "1.trec", tmp_path / "2.trec"
    one.write_text("q2 Q0 b 1 9 x\nq2 Q0 a 2 8 x\nq1 Q0 c 1 5 x\n")
    two.write_text("q3 Q0 a 1 3 y\nq2 Q0 a 1 2 y\nq2 Q0 b 2 1 y\nq2 Q0 d 3 0.5 y\n")
    told = fuse_files([one, two], method="rrf", depth=2, out=tmp_path / "out")
    assert told == {"queries": 3, "lines": 4}
    lines = [line.split() for line in (tmp_path / "out" / "fused.trec").read_text().splitlines()]
    # a and b tie for q2: the smaller id first; the written score of the second is lowered.
    assert [line[:4] for line in lines] == [
        ["q2", "Q0", "a", "1"], ["q2", "Q0", "b", "2"], ["q1", "Q0", "c", "1"],
        ["q3", "Q0", "a", "1"],
    ]  # fmt: skip
    assert float(lines[0][4]) == pytest.approx(1 / 61 + 1 / 62) and lines[0][5] == "fused"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["fused.trec"]


@pytest.fixture
def two_runs(tmp_path):
    """Run x ranks a above b by 2 to 1, run y b above c by 4 to 1."""
    (tmp_path / "x").write_text("q Q0 a 1 2 x\nq Q0 b 2 1 x\n")
    (tmp_path / "y").write_text("q Q0 b 1 4 y\nq Q0 c 2 1 y\n")
    return ["fuse", "--runs", str(tmp_path / "x"), "--runs", str(tmp_path / "y")]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # Scaled to [0, 1], a has 1 in x, b has 0 in x and 1 in y, c has 0.
        ("weighted --weights 0.25 --weights 0.75", {"b": 0.75, "a": 0.25, "c": 0.0}),
        ("weighted", {"a": 0.5, "b": 0.5, "c": 0.0}),
        ("rrf --k 1", {"b": 1 / 3 + 1 / 2, "a": 1 / 2, "c": 1 / 3}),
        ("rrf --k 0", {"b": 1 / 2 + 1, "a": 1.0, "c": 1 / 2}),
        ("rrf", {"b": 1 / 62 + 1 / 61, "a": 1 / 61, "c": 1 / 62}),
    ],
)
def test_weights_and_k_of_the_command_line_reach_the_rule(
    two_runs, tmp_path, capsys, settings, expected
):
    command = [*two_runs, "--method", *settings.split(), "--out", str(tmp_path / "out")]
    assert run_command(command) == (0, "complete")
    assert f"1 queries, 3 lines: {tmp_path}/out/fused.trec" in capsys.readouterr().out
    lines = [line.split() for line in (tmp_path / "out" / "fused.trec").read_text().splitlines()]
    assert [line[2] for line in lines] == [*expected]
    assert [float(line[4]) for line in lines] == pytest.approx([*expected.values()])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("weighted --weights 1", "fuse: expected one weight per run, 2; found 1"),
        ("weighted --weights 1 --weights -1", "fuse: weights: expected finite numbers from 0"),
        ("weighted --weights 1 --weights nan", "fuse: weights: expected finite numbers from 0"),
        ("rrf --weights 1 --weights 1", "fuse: weights are for method weighted"),
        ("weighted --k 3", "fuse: k is for method rrf; remove it or change 'weighted'"),
        ("rrf --k nan", "fuse: k: expected a number from 0; found nan"),
        ("rrf --k -1", "fuse: k: expected a number from 0; found -1.0"),
        ("weighted --weights one --weights 1", "Invalid value for '--weights'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(two_runs, tmp_path, capsys, settings, told):
    command = [*two_runs, "--method", *settings.split(), "--out", str(tmp_path / "out")]
    assert run_command(command)[0] == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


FORMS = {
    "run.trec": "q2 Q0 b 1 9 x\nq2 Q0 a 2 8.5 x\nq2 Q0 c 3 8.5 x\nq1 Q0 c 1 5 x\n",
    "run.tsv": "q2\tb\t1\nq2\tc\t2\nq2\ta\t3\nq1\tc\t1\n",
    "top1000.tsv": "q2\tb\tq\tp\nq2\tc\tq\tp\nq2\ta\tq\tp\nq1\tc\tq\tp\n",
    "run.parquet": None,
}


@pytest.mark.parametrize("name", FORMS)
def test_one_run_of_any_form_is_cut_as_it_is_read(tmp_path, capsys, name):
    path = tmp_path / name
    if FORMS[name] is None:
        columns = {"query_id": ["q2", "q2", "q2", "q1"], "passage_id": list("bcac"),
                   "rank": [1, 2, 3, 1], "score": [9.0, 8.5, 8.5, 5.0]}  # fmt: skip
        pq.write_table(pa.table(columns), path)
    else:
        path.write_text(FORMS[name])
    command = ["fuse", "--runs", str(path), "--depth", "2", "--out", str(tmp_path / "out")]
    assert run_command(command) == (0, "complete")
    assert "2 queries, 3 lines" in capsys.readouterr().out
    whole = read_run(path)
    found = read_run(tmp_path / "out" / "fused.trec")
    expected = whole.filter(pc.less_equal(whole["rank"], 2))
    # Equal scores are c before a in TREC's order; the scores are those of the file.
    assert found.equals(expected)
    assert found["passage_id"].to_pylist() == ["b", "c", "c"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--method", "rrf"], "found method: remove them, or give more runs"),
        (["--k", "3", "--weights", "1"], "found weights and k: remove them, or give more runs"),
        (["--depth", "0"], "depth"),
    ],
)
def test_what_one_run_has_no_use_for_is_refused(tmp_path, capsys, given, told):
    (tmp_path / "x").write_text("q Q0 a 1 2 x\n")
    command = ["fuse", "--runs", str(tmp_path / "x"), *given, "--out", str(tmp_path / "out")]
    assert run_command(command)[0] == 2
    assert told in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_two_runs_without_a_method_are_refused(two_runs, tmp_path, capsys):
    assert run_command([*two_runs, "--out", str(tmp_path / "out")])[0] == 2
    assert "fuse: method: expected one of alternate" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_is_refused(two_runs, tmp_path, capsys):
    (tmp_path / "out").write_text("mine")
    command = [*two_runs, "--method", "rrf", "--out", str(tmp_path / "out")]
    assert run_command(command)[0] == 2
    assert "expected a folder, found the file" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "mine"


def test_a_run_that_is_read_and_a_file_of_the_users_own_are_not_written_over(tmp_path, capsys):
    run, out = tmp_path / "x", tmp_path / "out"
    run.write_text("q Q0 a 1 2 x\nq Q0 b 2 1 x\n")
    command = ["fuse", "--depth", "1", "--out", str(out), "--runs"]
    assert run_command([*command, str(run)]) == (0, "complete")
    assert run_command([*command, str(run)]) == (0, "complete")  # its own file, made anew
    fused = out / "fused.trec"
    (tmp_path / "link").symlink_to(fused)
    for content, given, told in (
        (fused.read_text(), fused, "it is one of --runs, and would be written over"),
        (fused.read_text(), tmp_path / "link", "it is one of --runs, and would be written over"),
        ("q Q0 a 1 2 mine\n", run, "it is there, and not from `raypipe fuse`"),
        ("notes on what fused best\n", run, "it is there, and not from `raypipe fuse`"),
    ):
        fused.write_text(content)
        assert run_command([*command, str(given)])[0] == 2
        assert f"error: {fused}: {told}" in capsys.readouterr().err
        assert fused.read_text() == content


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "told"), [(os.mkfifo, "a pipe"), (os.mkdir, "a folder")])
def test_what_is_no_file_in_the_place_of_the_result_is_refused(
    two_runs, tmp_path, capsys, make, told
):
    (tmp_path / "out").mkdir()
    make(target := tmp_path / "out" / "fused.trec")
    assert run_command([*two_runs, "--method", "rrf", "--out", str(tmp_path / "out")])[0] == 2
    assert f"{target}: expected a file or nothing, found {told}" in capsys.readouterr().err
