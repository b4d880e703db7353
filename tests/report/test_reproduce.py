"""What steps measured: from the summaries of trainings in phases, and of no other invocation."""

import json

import pytest

from raypipe.driver.summaries import write_summary
from raypipe.errors import IncompleteError
from raypipe.report.published import plan, reproduction
from raypipe.report.reproduce import outcome, write


def history(*steps):
    return [{"step": n, "mean": sum(v) / len(v), "values": [*v]} for n, v in enumerate(steps, 1)]


@pytest.fixture
def trained(tmp_path):
    """The summary of cip-runs, as a training leaves it."""
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
    write_summary(tmp_path / "cip-runs", summary)
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
    write_summary(tmp_path / "cip-runs", {"status": "failed", "exit": 3, "reason": "x"})
    with pytest.raises(IncompleteError, match="not complete .failed.; run the same command again"):
        outcome(reproduction("cip"), trained)


def test_the_twin_has_the_sections_values(trained, tmp_path):
    section = outcome(reproduction("cip"), trained)
    twin, page = write(section, tmp_path)
    assert twin == tmp_path / "analysis" / "reproduce.cip.json"
    assert json.loads(twin.read_bytes()) == json.loads(json.dumps(section.to_json()))
    assert page.read_text().startswith("<!doctype html>") and "CIP_run1" in page.read_text()
