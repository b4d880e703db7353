"""The command `table`."""

import csv
import json

from raypipe.cli.main import run
from raypipe.evaluation.tables import FORMATS
from raypipe.vocabulary import TableFormat, words


def test_every_format_is_printed(small_workspace, capsys):
    folder, outcome, _ = small_workspace
    printed = {}
    for name in ("md", "csv", "latex", "json"):
        assert run(["table", str(folder), "--format", name])[0] == 0
        printed[name] = capsys.readouterr().out
    assert run(["table", str(folder)])[0] == 0
    assert capsys.readouterr().out == printed["md"] == outcome.table
    assert [line[2] for line in csv.reader(printed["csv"].splitlines())] == [
        "system", "dense", "given", "fused",
    ]  # fmt: skip
    assert "\\begin{tabular}{lrr}" in printed["latex"]
    assert json.loads(printed["json"])["tables"][0]["systems"][1]["measures"]["RR@10"] == {
        "mean": 0.25
    }
    assert tuple(FORMATS) == words(TableFormat)


def test_a_file_is_written_and_replaced(small_workspace, tmp_path, capsys):
    folder, outcome, _ = small_workspace
    out = tmp_path / "table.md"
    out.write_text("before")
    command = ["table", str(folder), "--queries", "dev", "--measures", "RR@10, AP"]
    assert run([*command, "--out", str(out)])[0] == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text().startswith("## dev\n") and "AP (n=2)" in out.read_text()


def test_what_is_wrong_is_told_and_nothing_of_the_workspace_is_replaced(
    small_workspace, tmp_path, capsys
):
    folder, outcome, _ = small_workspace
    for options, words_of_it in (
        (["--format", "xml"], "--format xml: expected md, csv, latex or json"),
        (["--out", str(folder / "table.md")], "a file of the workspace itself"),
        (["--out", str(folder / "summary.json")], "a file of the workspace itself"),
        (["--out", str(tmp_path)], "expected a file in a folder that exists"),
        (["--out", str(tmp_path / "none" / "x")], "expected a file in a folder that exists"),
    ):
        assert run(["table", str(folder), *options])[0] == 2
        assert words_of_it in capsys.readouterr().err
    assert (folder / "table.md").read_text() == outcome.table
