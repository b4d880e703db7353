"""Runs over a larger collection in every table: a star, or its column, and one note."""

import csv
import json
from dataclasses import replace

from raypipe.cli.main import run
from raypipe.evaluation.tables import OUTSIDE, as_json, markdown
from raypipe.report.queries import queries
from raypipe.report.results import results
from raypipe.report.show import show

MEANING = OUTSIDE.removeprefix("* ")


def test_the_pipelines_table_stars_them_and_says_once_what_it_means(outside):
    opened, folder = outside
    told = (folder / "work" / "table.md").read_text()
    assert told.count(f"- \\{OUTSIDE}\n") == 1, "a star alone would begin a list in the list"
    assert "| given * |" in told and "| other * |" in told and "| own     |" in told
    assert markdown(results(opened)) == told
    notes = opened.summary["notes"]["test"]["passages"]
    before = {"test": {"passages": [note for note in notes if note != OUTSIDE]}}
    old = replace(opened, summary={**opened.summary, "notes": before})
    assert markdown(results(old)).count(OUTSIDE) == 1


def test_csv_and_json_name_the_collection_and_say_what_follows(outside, capsys):
    work = str(outside[0].workspace.folder)
    assert run(["table", work, "--format", "csv"])[0] == 0
    lines = {line["system"]: line for line in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert {n: line["larger_collection"] for n, line in lines.items()} == {
        "own": "", "second": "", "given": "all of it", "other": "all of it",
    }  # fmt: skip
    assert [line["note"] for line in lines.values()] == ["", "", MEANING, MEANING]
    assert lines["given"]["RR@10 wins"] == "" and lines["second"]["RR@10 losses"] == "1"
    (table,) = json.loads(as_json(results(outside[0])))["tables"]
    assert [each["larger_collection"] for each in table["systems"]] == [
        None, None, "all of it", "all of it",
    ]  # fmt: skip
    assert table["notes"].count(OUTSIDE) == 1


def test_queries_are_not_said_to_change_from_one_collection_to_another(outside):
    section = queries(outside[0], "test")
    by_title = {table.title: table for table in section.tables}
    assert "RR@10: lost most, second over own" in by_title
    columns = by_title["RR@10: hardest for every system"].columns
    assert columns == ["query", "text", "relevant", "own", "second", "given *", "other *"]
    assert [*section.charts[0].lines] == ["second"]
    assert section.notes.count(OUTSIDE) == 1


def test_the_hardest_are_hard_for_the_systems_over_this_collection(outside):
    (hardest,) = [t for t in queries(outside[0], "test").tables if "hardest" in t.title]
    assert [row[0] for row in hardest.rows] == ["q1", "q2"]
    assert [max(row[3:5]) for row in hardest.rows] == [1.0, 1.0]


def test_a_query_shown_says_which_of_its_runs_rank_another_collection(outside):
    (shown,) = show(outside[0], "q1")
    assert any(note.startswith("given ranks all of it, not this coll") for note in shown.notes)
    (alone,) = show(outside[0], "q1", systems=["own"])
    assert not any("not this collection" in note for note in alone.notes)
