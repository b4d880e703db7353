"""Query sets with one topic, and runs that have nothing for the judged queries."""

import csv

import pytest
import yaml
from watchers import Silent

from raypipe.cli.main import run
from raypipe.config import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.report.contents import report
from raypipe.report.depth import depth
from raypipe.report.finished import open_finished
from raypipe.report.fusion import fusion
from raypipe.report.measures import of_system, recall_of


@pytest.fixture(scope="module")
def nothing(tmp_path_factory, tiny_mono):
    """q1 alone is judged; `one` and its reranker have passages for q2 only, `two` for both."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "passages.tsv").write_text("".join(f"p{i}\tpassage {i}\n" for i in range(4)))
    (folder / "queries.tsv").write_text("q1\tone\nq2\ttwo\n")
    (folder / "qrels.txt").write_text("q1 0 p1 1\n")
    (folder / "one.trec").write_text("q2 Q0 p0 1 2 x\nq2 Q0 p1 2 1 x\n")
    (folder / "two.trec").write_text("q1 Q0 p0 1 2 x\nq1 Q0 p1 2 1 x\nq2 Q0 p3 1 1 x\n")
    stages = {n: {"do": "read", "runs": {"test": f"{folder}/{n}.trec"}} for n in ("one", "two")}
    recipe = {
        "format": 1,
        "name": "nothing",
        "collection": {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"},
        "queries": {"test": {"file": f"{folder}/queries.tsv", "qrels": f"{folder}/qrels.txt"}},
        "models": {"tiny": {"path": str(tiny_mono)}},
        "stages": {**stages, "mono": {"do": "score", "run": "one", "model": "tiny", "k0": 2}},
        "evaluate": {"measures": ["RR@10", "NumRet"], "baseline": "one"},
        "resources": {"backend": "inline", "device": "cpu"},
    }
    loaded = load_recipe(yaml.safe_dump(recipe, sort_keys=False), source="nothing")
    run_pipeline(loaded, folder / "work", Options(), watcher=Silent())
    return open_finished(folder / "work")


def test_a_run_without_a_judged_query_counts_0_and_the_pipeline_completes(nothing):
    means = nothing.summary["measures"]["test"]
    assert {name: each["RR@10"] for name, each in means.items()} == {
        "one": 0.0, "two": 0.5, "mono": 0.0,
    }  # fmt: skip
    table = (nothing.workspace.folder / "table.md").read_text()
    assert "one: judged queries without a result, each counting 0: 1" in table


def test_its_page_and_its_tables_are_made_for_one_topic(nothing, capsys):
    text = report(nothing).read_text()
    assert "best by RR@10: two, 0.5000; +0.5000 [+0.5000, +0.5000] over one, p 1.0000" in text
    assert "nan" not in text.lower().replace("tenant", "")
    assert run(["table", str(nothing.workspace.folder), "--format", "csv"])[0] == 0
    lines = {line["system"]: line for line in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert lines["two"]["RR@10 wins"] == lines["two"]["NumRet wins"] == "1"
    assert lines["mono"]["RR@10 ties"] == "1" and lines["one"]["RR@10 ties"] == ""


def test_a_run_without_a_line_has_no_depths(nothing):
    class Empty(type(nothing)):
        def run(self, system, query_set):
            return super().run(system, query_set).slice(0, 0)

    empty = Empty(nothing.workspace, nothing.recipe, nothing.summary)
    assert of_system(empty, "test", "two").mean == {"RR@10": 0.0, "NumRet": 0.0}
    assert recall_of(empty, "test", "two") == {} and fusion(empty, "test") is None
    section = depth(empty, "test")
    assert [table.rows for table in section.tables] == [[["one"], ["two"]]]


@pytest.mark.parametrize("loss", ["nan", "inf", "-0.1"])
def test_a_loss_that_is_no_loss_is_refused(nothing, loss, capsys):
    command = ["analyse", "tradeoff", str(nothing.workspace.folder), f"--loss={loss}"]
    assert run(command)[0] == 2
    assert "expected a number from 0" in capsys.readouterr().err
