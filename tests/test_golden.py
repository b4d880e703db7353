"""The script that compares the results of two commits notices what differs."""

import importlib.util
from pathlib import Path

import pytest

path = Path(__file__).parent / "golden.py"
spec = importlib.util.spec_from_file_location("golden", path)
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)
TABLE = """\
| system | AP (n=2) | ms/query |
|--------|----------|----------|
| bm25   | {value}   | {time}      |

| system | AP          |
|--------|-------------|
| mono   | +0.1 [0, 1] |
"""


def workspace(folder, run="q Q0 p 1 1 s\n", value="0.25", time="3.1"):
    for name, text in (("runs/dev/s.trec", run), ("measures/dev.tsv", "q\ts\tAP\t0.25\n")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "table.md").write_text(TABLE.format(value=value, time=time))
    return folder


def test_times_may_differ_and_nothing_else(tmp_path):
    before = workspace(tmp_path / "a")
    assert golden.differences(before, workspace(tmp_path / "b", time="9.9")) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"run": "q Q0 p 1 1.0 s\n"}, "runs/dev/s.trec: not the same"),
        ({"value": "0.26"}, "table (0, 'bm25', 'AP (n=2)'): 0.25 -> 0.26"),
    ],
)
def test_a_line_or_a_cell_that_differs_is_named(tmp_path, settings, words):
    before = workspace(tmp_path / "a")
    (problem,) = golden.differences(before, workspace(tmp_path / "b", **settings))
    assert words in problem


def test_a_file_that_is_gone_and_a_workspace_without_runs_are_named(tmp_path):
    before, after = workspace(tmp_path / "a"), workspace(tmp_path / "b")
    (after / "runs" / "dev" / "s.trec").unlink()
    assert len(golden.differences(before, after)) == 1
    (before / "runs" / "dev" / "s.trec").unlink()
    assert golden.differences(before, after) == ["a: no runs"]


def test_cells_are_known_by_table_row_and_column():
    assert golden.cells(TABLE.format(value="1", time="2")) == {
        (0, "bm25", "system"): "bm25",
        (0, "bm25", "AP (n=2)"): "1",
        (1, "mono", "system"): "mono",
        (1, "mono", "AP"): "+0.1 [0, 1]",
    }
