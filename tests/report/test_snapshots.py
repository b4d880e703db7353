"""Measures over snapshots: a row for each, changes from the first judged one, and what is not."""

import json

import pytest

from raypipe.errors import InputError
from raypipe.report.page import to_text
from raypipe.report.snapshots import over_snapshots

VALUES = {
    "2024": {"q1": 1.0, "q2": 0.5, "q3": 0.0},
    "2025": {"q1": 0.5, "q2": 0.25, "q3": 0.0},
    "2026": {"q4": 0.5, "q5": 0.5},
}


def write(folder, values=VALUES, unjudged=("2023",)):
    """The record of a workspace with one system on one query set."""
    snapshots = {}
    for number, name in enumerate([*unjudged, *values], 1):
        measures = {"test": {"bm25": {}}} if name in values else {}
        entry = {"generation": number, "passages": 10 * number, "rows_copied": 7, "seconds": 1.5}
        if number > 1:
            entry |= {"added": 10, "removed": 0, "changed": 2}
        snapshots[name] = entry | {"systems": {"test": ["bm25"]}, "measures": measures}
    root = folder / "snapshots"
    (root / "test").mkdir(parents=True)
    (root / "snapshots.json").write_text(json.dumps({"format": 1, "snapshots": snapshots}))
    for name, of_queries in values.items():
        lines = [f"{query}\tbm25\tnDCG@10\t{value!r}\n" for query, value in of_queries.items()]
        text = "".join(["query_id\tsystem\tmeasure\tvalue\n", *lines])
        (root / "test" / f"{name}.tsv").write_text(text)
    return folder


def test_changes_are_from_the_first_judged_snapshot_and_each_has_an_interval(tmp_path):
    (section,) = over_snapshots(write(tmp_path))
    measured, built = section.tables
    none, first, second, third = measured.rows
    assert none == ["bm25", "nDCG@10", "2023", *[None] * 6]
    assert first == ["bm25", "nDCG@10", "2024", 3, 0.5, *[None] * 4]
    assert second[:5] == ["bm25", "nDCG@10", "2025", 3, 0.25]
    assert second[5:7] == [pytest.approx(-0.5), pytest.approx(-0.25)]
    # Resampled means of the paired differences -0.5, -0.25 and 0.
    assert second[7:] == [pytest.approx(-0.5), pytest.approx(0.0)]
    assert third[3:7] == [2, 0.5, pytest.approx(0.0), pytest.approx(0.0)]
    assert built.rows[0] == ["2023", "1", 10, None, None, None, 7, 1.5]
    assert built.rows[1][2:6] == [20, 10, 0, 2]
    assert section.charts[0].lines == {"bm25": [(2.0, 0.5), (3.0, 0.25), (4.0, 0.5)]}


def test_what_was_not_judged_is_named_and_signs_are_shown(tmp_path):
    (section,) = over_snapshots(write(tmp_path))
    text = to_text(section)
    assert "- without judgements, so not measured: 2023" in text
    assert "| 0.2500 | -0.5000 " in text and "LongEval's own RC has the other sign" in text


def test_without_judgements_there_is_what_each_snapshot_is_alone(tmp_path):
    (section,) = over_snapshots(write(tmp_path, {}, ("2023", "2024")))
    assert [table.title for table in section.tables] == ["Snapshots"] and not section.charts


def test_a_first_mean_of_nothing_has_no_relative_change(tmp_path):
    (section,) = over_snapshots(write(tmp_path, {"a": {"q": 0.0}, "b": {"q": 1.0}}, ()))
    assert section.tables[0].rows[1][4:] == [1.0, None, 1.0, 1.0, 1.0]


def test_measures_that_are_gone_or_damaged_are_named(tmp_path):
    path = write(tmp_path) / "snapshots" / "test" / "2025.tsv"
    path.write_text("query_id\tsystem\tmeasure\tvalue\nq1\tbm25\n")
    with pytest.raises(InputError, match="2025.tsv: expected the measures of a snapshot"):
        over_snapshots(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="2025.tsv: .*run the re-index of the snapshots again"):
        over_snapshots(tmp_path)


def test_a_workspace_without_snapshots_and_another_query_set_have_no_section(tmp_path):
    assert over_snapshots(tmp_path) == []
    assert over_snapshots(write(tmp_path), "dev") == []
