"""`raypipe reproduce bm25` on the real collections: the rows of docs/results.md."""

import json

import pytest

from raypipe.cli.main import run

pytestmark = [pytest.mark.long, pytest.mark.jvm, pytest.mark.timeout(1800)]


def test_bm25_is_within_its_tolerances_on_three_collections(
    raypipe_data, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RAYPIPE_DATA", str(raypipe_data))
    steps = ("nfcorpus", "dl21-first-stages", "car-test200")
    only = [word for step in steps for word in ("--only", step)]
    command = ["reproduce", "bm25", "--out", str(tmp_path), *only, "resources.backend=inline"]
    code, reason = run([*command, "--json"])
    assert code == 0, reason
    section = json.loads(capsys.readouterr().out)
    assert section["tables"][-1]["title"] == "Results"
    assert dict(section["tables"][-1]["rows"])["pass"] == 29
    assert "nfcorpus: test: 323 topics" in section["notes"]
    assert "car-test200: hierarchical: 1,860 topics" in section["notes"]
    assert "dl21-first-stages: dl21: 53 topics" in section["notes"]
    summary = json.loads((tmp_path / "nfcorpus" / "summary.json").read_bytes())
    assert list(summary["systems"]["test"]) == ["bm25"]
