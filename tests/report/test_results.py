"""The command `table`."""

import csv
import json
from dataclasses import replace

import pytest

from raypipe.cli.main import run
from raypipe.data.qrels import read_qrels
from raypipe.driver.summaries import read_summary
from raypipe.errors import InputError
from raypipe.evaluation.compare import compare
from raypipe.evaluation.significance import Difference
from raypipe.evaluation.tables import FORMATS, Row, as_csv, markdown, render, rows_of, title_of
from raypipe.report.finished import open_finished
from raypipe.report.results import results
from raypipe.vocabulary import TableFormat, words


@pytest.fixture(scope="module")
def work(small_workspace):
    return open_finished(small_workspace[0])


def test_the_table_is_the_pipelines_own(small_workspace, work):
    _, outcome, _ = small_workspace
    assert markdown(results(work)) == outcome.table == markdown(results(work, "dev", ["RR@10"]))


def test_p_is_that_of_compare_over_the_measures_of_the_table(work):
    (table,) = results(work, "dev", ["nDCG@10", "RR@10"])
    names = ["dense", "given", "fused"]
    runs = {name: work.named(work.run(name, "dev"), "dev") for name in names}
    qrels = read_qrels(work.workspace.folder.parent / "qrels.txt")
    expected = compare(runs, qrels, ["nDCG@10", "RR@10"], baseline="given")
    found = [str(replace(row, unjudged=0.0)) for row in table.comparisons.values()]
    assert found == [str(replace(row, unjudged=0.0)) for row in expected.rows], "no table shows it"
    assert table.family == 4
    assert [row.system for row in table.rows] == names and table.num_topics == 2
    assert [row.values["RR@10"] for row in table.rows][1] == 0.25


def test_counts_are_told_and_not_tested(work):
    (table,) = results(work, None, ["NumRet", "RR@10"])
    assert {measure for _, measure in table.comparisons} == {"RR@10"} and table.family == 2
    dense, given, fused = table.rows
    assert (dense.values["NumRet"], given.values["NumRet"]) == (4.0, 2.0)
    assert dense.differences["NumRet"].mean == 1.0 and given.differences == {}
    (counts,) = results(work, None, ["NumRet"])
    assert counts.comparisons == {} and fused.differences["RR@10"].mean


def test_without_a_baseline_among_the_systems_nothing_is_compared(work):
    evaluate = work.recipe.evaluate.model_copy(update={"baseline": None})
    recipe = work.recipe.model_copy(update={"evaluate": evaluate})
    (table,) = results(replace(work, recipe=recipe))
    assert table.comparisons == {} and table.baseline is None and table.rows[1].values["RR@10"]


@pytest.mark.parametrize(
    ("query_set", "measures", "words"),
    [
        ("x", (), "--queries x: expected one of dev"),
        (None, ("nope@10",), "measure 'nope@10'"),
    ],
)
def test_what_is_not_there_is_refused(work, query_set, measures, words):
    with pytest.raises(InputError, match=words):
        results(work, query_set, measures)


def test_a_query_set_without_judgements_is_refused(work):
    work = replace(work)
    work.__dict__["_judgements"] = {}
    with pytest.raises(InputError, match="no query set was measured"):
        results(work)
    with pytest.raises(InputError, match="dev has no judgements of passages"):
        results(work, "dev")


def test_queries_that_a_run_lacks_are_warned_of(given, caplog):
    results(given, "test")
    assert "one: 2 queries of the qrels are not in the run and count 0: q4, q9" in caplog.text


def test_csv_without_a_comparison_has_no_columns_for_it(given):
    (table,) = results(given, "test")
    alone = replace(table, rows=[replace(row, differences={}) for row in table.rows])
    header, *rows = (line.split(",") for line in as_csv([alone]).splitlines())
    assert header[-3:] == list(table.measures)
    assert rows and all(len(row) == len(header) for row in rows)


def test_a_table_has_n_in_its_header_and_differences_below():
    rows = [
        Row("bm25", "", "", {"RR@10": 0.25, "R@1000": 1.0}, None, ""),
        Row(
            "mono", "bm25", "m", {"RR@10": 0.5, "R@1000": 1.0}, 12.345, "MS MARCO",
            {
                "RR@10": Difference(0.25, -0.125, 0.5, 2, 0, 1),
                "R@1000": Difference(0.0, 0.0, 0.0, 0, 4, 0),
            },
        ),
        Row("duo", "mono", "m", {"RR@10": 0.0, "R@1000": 1.0}, 3.0, "MS MARCO"),
    ]  # fmt: skip
    text = render(
        "dev", rows, measures=["RR@10", "R@1000"], num_topics={"RR@10": 3, "R@1000": 4},
        baseline="bm25", notes=["a note"],
    )  # fmt: skip
    assert text == (
        "## dev\n"
        "\n"
        "| system | reranks | model | RR@10 (n=3) | R@1000 (n=4) | ms/query |\n"
        "|--------|---------|-------|-------------|--------------|----------|\n"
        "| bm25   |         |       | 0.2500      | 1.0000       | -        |\n"
        "| mono   | bm25    | m     | 0.5000      | 1.0000       | 12.3     |\n"
        "| duo    | mono    | m     | 0.0000      | 1.0000       | 3.0      |\n"
        "\n"
        "Difference to bm25, with a 95% interval and wins/ties/losses:\n"
        "\n"
        "| system | RR@10                            | R@1000                           |\n"
        "|--------|----------------------------------|----------------------------------|\n"
        "| mono   | +0.2500 [-0.1250, +0.5000] 2/0/1 | +0.0000 [+0.0000, +0.0000] 0/4/0 |\n"
        "\n"
        "- m: its start weights saw MS MARCO\n"
        "- a note\n"
    )
    alone = render(
        "dev", rows[:1], measures=["RR@10"], num_topics={"RR@10": 3}, baseline=None, notes=[]
    )
    assert alone.count("\n") == 6 and "Difference" not in alone
    without = render(
        "dev", rows, measures=["RR@10"], num_topics={"RR@10": 3}, baseline=None, notes=[]
    )
    assert "Difference" not in without


def test_inferences_are_told_a_query_and_those_of_a_summary_of_before_are_alone():
    told = {
        "bm25": {"ms_per_query": 1.0},
        "mono": {"ms_per_query": None, "inferences": 5000, "computed": 0},
        "old": {"ms_per_query": None, "inferences": 10},
    }
    told = {
        name: {"reranks": "a|b", "model": "", "start_weights": "", **of}
        for name, of in told.items()
    }
    means = dict.fromkeys(told, {"AP": 0.5})
    rows = rows_of(told, means, {"mono": {"AP": Difference(0.0, 0.0, 0.0, 0, 1, 0)}}, num_queries=4)
    assert [(row.inferences, row.computed) for row in rows] == [
        (None, None),
        (1250, 0),
        (2.5, None),
    ]
    assert [list(row.differences) for row in rows] == [[], ["AP"], []]
    settings = {"measures": ["AP"], "num_topics": {"AP": 2}, "baseline": None, "notes": []}
    assert render(title_of("dev", "documents"), rows, **settings).splitlines()[:6] == [
        "## dev, documents",
        "",
        "| system | reranks | model | AP (n=2) | ms/query | inferences/query | computed/query |",
        "|--------|---------|-------|----------|----------|------------------|----------------|",
        "| bm25   | a\\|b    |       | 0.5000   | 1.0      | -                | -              |",
        "| mono   | a\\|b    |       | 0.5000   | -        | 1,250.0          | 0.0            |",
    ]
    (nobody,) = rows_of({"mono": told["mono"]}, {"mono": {}}, {}, num_queries=0)
    assert nobody.inferences is None


def test_the_table_says_what_is_to_be_known(small_workspace):
    work, outcome, said = small_workspace
    assert said[0].startswith("device: CPU") and outcome.table == (work / "table.md").read_text()
    notes = [line for line in outcome.table.splitlines() if line.startswith("- ")]
    assert notes[-5:] == [
        "- relevant: grade 1",
        "- 5 passages, 3 queries",
        "- ms/query: wall time of the whole chain over all queries, loading excluded",
        "- given: judged queries without a result, each counting 0: 1",
        "- 2 of 3 queries are judged",
    ]
    assert "- topics: two of them" in notes and "## other" not in outcome.table
    assert "Difference to given, with a 95% interval and wins/ties/losses:" in outcome.table
    measured = (work / "measures" / "dev.tsv").read_text().splitlines()
    assert measured[:3] == [
        "query_id\tsystem\tmeasure\tvalue",
        "q1\tdense\tRR@10\t" + measured[1].split("\t")[3],
        "q2\tdense\tRR@10\t" + measured[2].split("\t")[3],
    ]
    assert "q1\tgiven\tRR@10\t0.5" in measured and "q2\tgiven\tRR@10\t0.0" in measured
    summary = outcome.summary
    assert summary["measures"]["dev"]["given"] == {"RR@10": 0.25}
    assert (summary["status"], summary["exit"], summary["reason"]) == ("complete", 0, "complete")
    assert list(summary["systems"]["dev"]) == ["dense", "given", "fused"]
    assert summary["systems"]["dev"]["given"] == {
        "reranks": "as read", "model": "run.trec", "start_weights": "", "ms_per_query": None,
    }  # fmt: skip
    assert summary["systems"]["dev"]["fused"]["reranks"] == "given + dense"
    assert summary["systems"]["dev"]["fused"]["model"] == "rrf"
    assert summary["systems"]["dev"]["dense"]["ms_per_query"] > 0
    shards = summary["stages"]["vectors"]["shards"]
    assert shards["planned"] > 1 and shards["reused"] == shards["quarantined"] == 0
    assert read_summary(work) == summary


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
    assert run(["table", "-h"])[0] == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "md, csv, latex or json; default md, drawn on a terminal." in told


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
        (["--format", "xml"], "'--format': Value error, 'xml' is not one of"),
        (["--out", str(folder / "table.md")], "a file of the workspace itself"),
        (["--out", str(folder / "summary.json")], "a file of the workspace itself"),
        (["--out", str(tmp_path)], "expected a file in a folder that exists"),
        (["--out", str(tmp_path / "none" / "x")], "expected a file in a folder that exists"),
    ):
        assert run(["table", str(folder), *options])[0] == 2
        assert words_of_it in capsys.readouterr().err
    assert (folder / "table.md").read_text() == outcome.table
