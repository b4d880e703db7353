"""What steps measured: from the summaries of trainings in phases, and of no other invocation."""

import json

import pytest

from raypipe.driver.summaries import write_results
from raypipe.errors import IncompleteError
from raypipe.report.published import (
    MeasuredRows,
    PrintedTable,
    Reproduction,
    Step,
    plan,
    reproduction,
)
from raypipe.report.reproduce import (
    COLUMNS,
    failures,
    lines_of,
    outcome,
    section_of,
    unmeasured,
    write,
)


def history(*steps):
    return [{"step": n, "mean": sum(v) / len(v), "values": [*v]} for n, v in enumerate(steps, 1)]


@pytest.fixture
def trained(tmp_path):
    """The results of cip-runs, as a training leaves them."""
    planned = plan(reproduction("cip"), tmp_path, data=tmp_path, only=["cip-runs"])
    phases = {
        "passage-v1": {"history": history((0.1, 0.2))},
        "run1": {"history": history((0.30, 0.30), (0.40, 0.37), (0.41, 0.35))},
        "run3": {"history": history((0.3926, 0.3719))},
        "passage-v2": {"history": history((0.5,))},
        "run2": {"history": history((0.3, 0.3))},
    }
    (tmp_path / "cip-runs").mkdir()
    summary = {"status": "complete", "exit": 0, "reason": "complete", "phases": phases}
    write_results(tmp_path / "cip-runs", summary)
    return planned


def test_a_phases_values_are_those_of_its_best_checkpoint_by_dev_set(trained):
    section = outcome(reproduction("cip"), trained)
    rows = {(row[0], row[1]): row for row in section.tables[0].rows}
    assert rows["CIP_run1", "val 1"][3] == 0.40 and rows["CIP_run1", "val 2"][3] == 0.37
    assert {key: row[7] for key, row in rows.items() if key[1].startswith("val")} == {
        ("CIP_run1", "val 1"): "pass",
        ("CIP_run1", "val 2"): "pass",
        ("CIP_run2", "val 1"): "fail",
        ("CIP_run2", "val 2"): "fail",
        ("CIP_run3", "val 1"): "pass",
        ("CIP_run3", "val 2"): "pass",
    }
    assert {row[7] for key, row in rows.items() if not key[1].startswith("val")} == {"not run"}
    assert section.lead.startswith("4 of 6 compared values are within their tolerance")


def test_settings_that_change_no_value_are_not_told(trained):
    of = reproduction("cip")
    notes = outcome(of, trained, ["cip-runs:resources.device=cpu", "cip-runs:batch=4"]).notes
    (told,) = [note for note in notes if note.startswith("changed by the command")]
    assert told.startswith("changed by the command: cip-runs:batch=4; ")
    alone = outcome(of, trained, ["resources.device=cpu"]).notes
    assert not any(note.startswith("changed by") for note in alone)


def test_an_invocation_that_is_not_complete_is_told(trained, tmp_path):
    refused, none = {"status": "failed", "exit": 5, "reason": "x"}, None
    for results in (refused, none):
        write_results(tmp_path / "cip-runs", results or {})
        if results is none:
            (tmp_path / "cip-runs" / "results.json").unlink()
        with pytest.raises(IncompleteError, match="no complete results .*; run the same command"):
            outcome(reproduction("cip"), trained)


def test_the_twin_has_the_sections_values(trained, tmp_path):
    section = outcome(reproduction("cip"), trained)
    twin, page = write(section, tmp_path)
    assert twin == tmp_path / "analysis" / "reproduce.cip.json"
    assert json.loads(twin.read_bytes()) == json.loads(json.dumps(section.to_json()))
    assert page.read_text().startswith("<!doctype html>") and "CIP_run1" in page.read_text()


TABLE = {"source": "monobert-2019", "table": "Table 1"}


def made_up(within=0.001, **changed):
    compared = MeasuredRows(
        **TABLE, step="s", queries="dev", how="retrained", within=within, why="because",
        systems={"BERT Large": {"dev": "mono"}, "BM25 (Lucene, no tuning)": {"dev": "bm25"}},
    )  # fmt: skip
    body = {
        "name": "small",
        "about": "a test",
        "steps": [Step(recipe="quickstart", name="s")],
        "tables": [PrintedTable(**TABLE, collection="msmarco-passage")],
        "compared": [compared],
        **changed,
    }
    return Reproduction(**body)


def verdict(ours, within=0.001):
    of = made_up(within)
    found = {("s", "dev", "mono", "RR@10"): ours}
    lines = lines_of(of, of.tables[0], found, ())
    return {(line.cell.row, line.cell.column): line.verdict for line in lines}


@pytest.mark.parametrize(
    ("ours", "within", "expected"),
    [
        (0.365, 0.001, "pass"),
        (0.366, 0.001, "pass"),
        (0.364, 0.001, "pass"),
        (0.36601, 0.001, "fail"),
        (0.36399, 0.001, "fail"),
        (0.375, 0.01, "pass"),
        (0.3551, 0.01, "pass"),
        (0.3549, 0.01, "fail"),
        (1.0, 0.01, "fail"),
    ],
)
def test_a_difference_up_to_the_tolerance_passes_on_both_sides(ours, within, expected):
    assert verdict(ours, within)["BERT Large", "dev"] == expected


def test_what_is_not_compared_says_why():
    found = verdict(0.365)
    assert found["BERT Large", "eval"] == "board only"
    assert found["KNRM", "dev"] == "as published"
    assert found["BM25 (Lucene, no tuning)", "dev"] == "not run"
    assert ("Co-PACRR", "test") not in found


def test_a_row_without_a_published_figure_says_so_and_is_not_judged():
    of = reproduction("minilm")
    ours = {("msmarco-v2-dl21", "dl21", "dense", "nDCG@10"): 0.5}
    section = section_of(of, ours, {"msmarco-v2-dl21"})
    (row,) = [row for table in section.tables for row in table.rows if row[7:8] == ["no figure"]]
    assert row[:8] == ["all-MiniLM-L6-v2", "nDCG@10", "nDCG@10", 0.5, None, None, None, "no figure"]
    assert section.lead.startswith("0 of 0 compared values")
    assert any(note.startswith("no figure: one was looked for") for note in section.notes)


def test_a_row_has_both_values_their_difference_and_the_source():
    of = made_up()
    section = section_of(of, {("s", "dev", "mono", "RR@10"): 0.3625}, {"s"})
    table, results = section.tables
    assert tuple(table.columns) == COLUMNS
    (row,) = [row for row in table.rows if row[:2] == ["BERT Large", "dev"]]
    assert row[2:5] == ["RR@10", 0.3625, 0.365]
    assert row[5] == pytest.approx(-0.0025)
    assert row[6:] == [0.001, "fail", "retrained", "Nogueira & Cho 2019, Table 1"]
    (other,) = [row for row in table.rows if row[:2] == ["KNRM", "dev"]]
    assert other[3:] == [
        None, 0.218, None, None, "as published", None, "Nogueira & Cho 2019, Table 1"
    ]  # fmt: skip
    assert section.lead.startswith("0 of 1 compared values are within their tolerance (1 fail, ")
    assert dict(results.rows)["board only"] == 5
    assert failures(section) == [
        "BERT Large (dev), Nogueira & Cho 2019, Table 1: ours 0.3625, published 0.365"
    ]
    assert any("because" in note and "retrained" in note for note in section.notes)
    assert any("arxiv.org/abs/1901.04085" in note for note in section.notes)


def test_a_time_and_a_value_that_is_not_printed_are_never_judged():
    compared = MeasuredRows(
        source="repbert-2020", table="Table 4", step="s", queries="dev",
        how="the authors' weights", within=0.001, why="w",
        systems={"DeepCT": {"BM25": "a", "RepBERT": "b"}},
    )  # fmt: skip
    of = made_up(tables=[PrintedTable(source="repbert-2020", table="Table 4")], compared=[compared])
    ours = {("s", "dev", name, "R@1000"): 0.5 for name in "ab"}
    section = section_of(of, ours, {"s"})
    found = {(r[0], r[1]): (r[3], r[7]) for r in section.tables[0].rows}
    assert found["DeepCT", "BM25"] == (0.5, "not printed")
    assert found["DeepCT", "RepBERT"] == (0.5, "fail")
    compared = compared.model_copy(
        update={"table": "Table 1", "systems": {"RepBERT": {"ms/query": "dense"}}}
    )
    of = made_up(tables=[PrintedTable(source="repbert-2020", table="Table 1")], compared=[compared])
    section = section_of(of, {("s", "dev", "dense", "ms/query"): 80.0}, {"s"})
    times = [row for row in section.tables[0].rows if row[2] == "ms/query"]
    assert len(times) == 6 and {row[7] for row in times} == {"not compared"}
    assert {row[0]: row[3] for row in times if row[3] is not None} == {"RepBERT": 80.0}


def test_rows_that_no_step_measures_can_be_left_out():
    of = made_up(tables=[PrintedTable(**TABLE, collection="msmarco-passage", others=False)])
    rows = {line.cell.row for line in lines_of(of, of.tables[0], {}, ())}
    assert rows == {"BERT Large", "BM25 (Lucene, no tuning)"}


def test_another_steps_or_query_sets_value_is_not_taken():
    of = made_up()
    ours = {("t", "dev", "mono", "RR@10"): 0.365, ("s", "eval", "mono", "RR@10"): 0.365}
    assert {line.verdict for line in lines_of(of, of.tables[0], ours, ()) if line.compared} == {
        "not run"
    }


def test_a_step_that_was_run_without_a_value_is_told_apart_from_one_that_was_not_run():
    of = made_up()
    assert unmeasured(section_of(of, {}, ())) == []
    section = section_of(of, {("s", "dev", "mono", "RR@10"): 0.365}, {"s"})
    assert unmeasured(section) == ["BM25 (Lucene, no tuning) (dev), Nogueira & Cho 2019, Table 1"]
    assert section.lead.startswith("1 of 1 compared values")
    assert dict(section.tables[-1].rows)["not measured"] == 1


def test_a_column_may_name_another_measure_of_ours():
    compared = MeasuredRows(
        source="anserini", table="regressions-dl21-passage.md", step="s", queries="dl21",
        how="their run, measured here", within=0.001, why="w", measures={"MAP@100": "AP(rel=2)"},
        systems={"BM25 (default)": {"MAP@100": "given", "nDCG@10": "given"}},
    )  # fmt: skip
    shown = PrintedTable(source="anserini", table="regressions-dl21-passage.md")
    of = made_up(tables=[shown], compared=[compared])
    ours = {("s", "dl21", "given", "AP(rel=2)"): 0.1358, ("s", "dl21", "given", "nDCG@10"): 0.4458}
    found = {(line.cell.row, line.cell.column): line for line in lines_of(of, shown, ours, {"s"})}
    assert found["BM25 (default)", "MAP@100"].ours == 0.1358
    assert found["BM25 (default)", "MAP@100"].verdict == "pass"
    assert found["BM25 (default)", "R@100"].verdict == "as published"


def test_a_table_of_one_name_in_another_source_is_another_table():
    of = made_up()
    (compared,) = of.compared
    other = compared.model_copy(update={"source": "repbert-2020"})
    of = of.model_copy(update={"compared": [other]})
    lines = lines_of(of, of.tables[0], {("s", "dev", "mono", "RR@10"): 0.365}, {"s"})
    assert lines and not any(line.compared for line in lines)
