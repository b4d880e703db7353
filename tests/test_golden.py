"""The script that compares the results of two commits notices what differs."""

import importlib.util
import json
from pathlib import Path

import pytest

path = Path(__file__).parent / "tools" / "golden.py"
spec = importlib.util.spec_from_file_location("golden", path)
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)
TABLE = """\
| system | AP (n=2)  | ms/query | more |
|--------|-----------|----------|------|
| bm25   | {value}   | {time}   | -    |

- 2 topics
"""
LATEX = "\\toprule\nsystem & AP & ms/query \\\\\n\\midrule\nbm25 & {value} & {time} \\\\\n"
CSV = "query_set,ms_per_query,AP\ndev,{time},{value}\nexit 0\n"
TABLES = {"table.md": TABLE, "analysis/latex.json": LATEX, "analysis/csv.json": CSV}


def results(folder, run="q Q0 p 1 1 s\n", value="0.25", time="3.1"):
    analysis = {"columns": ["AP", "ms/query, derived"], "rows": [[value, time]], "seconds": time}
    analysis["chart"] = {"x": "milliseconds a query", "lines": {"bm25": [[time, 0.25]]}}
    texts = {name: text.format(value=value, time=time) for name, text in TABLES.items()}
    texts |= {
        "runs/dev/s.trec": run,
        "measures/dev.tsv": "q\ts\tAP\t0.25\n",
        "analysis/depth.dev.json": json.dumps(analysis),
        "analysis/making.json": time,
        "log.jsonl": time,
    }
    for name, text in texts.items():
        (folder / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "out" / name).write_text(text)
    golden.workspace_results(folder / "out", folder / "results")
    return folder / "results"


def test_times_may_differ_and_nothing_else(tmp_path):
    before = results(tmp_path / "a")
    assert golden.differences(before, results(tmp_path / "b", time="19.9")) == []
    assert len(list(before.rglob("*.*"))) == 6


def test_every_file_with_another_line_or_cell_is_named(tmp_path):
    before = results(tmp_path / "a")
    assert golden.differences(before, results(tmp_path / "b", value="0.26")) == [
        f"results/{name}: not the same" for name in sorted([*TABLES, "analysis/depth.dev.json"])
    ]
    after = results(tmp_path / "c", run="q Q0 p 1 1.0 s\n")
    assert golden.differences(before, after) == ["results/runs/dev/s.trec: not the same"]


@pytest.mark.parametrize("there", ["before", "after"])
def test_a_file_that_is_gone_is_named_and_one_left_out_is_not(tmp_path, monkeypatch, there):
    folders = {"before": results(tmp_path / "a"), "after": results(tmp_path / "b")}
    name = "runs/dev/s.trec"
    gone = folders["after" if there == "before" else "before"]
    (gone / name).unlink()
    assert golden.differences(*folders.values()) == [f"results/{name}: only {there}"]
    monkeypatch.setitem(golden.LEFT, "results/runs/*", "runs")
    assert golden.differences(*folders.values()) == []


def test_no_results_at_all_are_a_difference(tmp_path):
    assert golden.differences(tmp_path / "a", tmp_path / "b") == ["a: no results"]


def test_a_case_that_fails_ends_the_comparison_and_has_no_results(tmp_path):
    """Two commits that fail alike would have no difference."""
    commit = golden.Commit(None, tmp_path / "kept")
    commit.code = tmp_path / "code"
    (commit.code / "raypipe").mkdir(parents=True)
    (commit.code / "raypipe" / "__init__.py").touch()
    (commit.code / "raypipe" / "__main__.py").write_text("raise SystemExit(3)")
    with pytest.raises(SystemExit, match="checkout: quickstart: exit 3; see .*log.txt"):
        commit.run("quickstart", tmp_path)
    assert not commit.results("quickstart").exists()
