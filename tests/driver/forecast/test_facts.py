"""Forecast and fact side by side, by hand."""

from types import SimpleNamespace

from raypipe.driver.forecast.forecast import Forecast, Line, beside_facts
from raypipe.names import Role, of_stage


def result(rows=0, computed=0, copied=0, tokens=0, num_bytes=0, seconds=0.0):
    return SimpleNamespace(
        num_rows=rows,
        num_rows_computed=computed,
        num_copied=copied,
        num_tokens=tokens,
        num_bytes=num_bytes,
        cpu_seconds=seconds,
    )


SCORES, INDEX, OLD, EXTRA = (
    of_stage("mono", "dev", Role.SCORES),
    of_stage("lucene"),
    of_stage("vectors"),
    of_stage("dense", "dev"),
)
LINES = [
    Line(str(INDEX), 9, 1, False, bytes=300.0, other_seconds=2.0, lucene=True),
    Line(str(OLD), 9, 1, True),
    Line(str(SCORES), 9, 1, False, 110.0, 12.0, bytes=90.0, other_seconds=1.0, model_seconds=3.0),
]
RESULTS = {
    INDEX: result(rows=9, computed=9, num_bytes=200, seconds=4.0),
    OLD: result(rows=9),
    SCORES: result(rows=9, computed=8, copied=2, tokens=100, num_bytes=100, seconds=4.004),
}


def test_only_what_was_computed_is_set_side_by_side(tmp_path):
    (tmp_path / "a.trec").write_text("8 bytes.")
    files = {"a.trec": 10.0, "gone.trec": 2.0}
    told = beside_facts(Forecast(LINES, notes=["a note"], run_files=files), RESULTS, tmp_path)
    assert list(told["stages"]) == ["lucene", "scores@mono.dev"]
    of_scores = told["stages"]["scores@mono.dev"]
    assert of_scores["forecast"] == {
        "rows": 9,
        "tokens": 110,
        "inferences": 12,
        "bytes": 90,
        "cpu_seconds": 4.0,
    }
    assert of_scores["fact"] == {
        "rows": 9,
        "tokens": 100,
        "inferences": 6,
        "bytes": 100,
        "cpu_seconds": 4.0,
    }
    assert told["stages"]["lucene"]["fact"]["inferences"] == 0
    totals = told["totals"]
    assert totals["fact"]["lucene_bytes"] == 200 and totals["fact"]["bytes"] == 100
    assert totals["forecast"]["cpu_seconds"] == 6.0 and totals["fact"]["cpu_seconds"] == 8.0
    assert totals["off"] == {
        "tokens": 0.1,
        "inferences": 1.0,
        "cpu_seconds": -0.25,
        "bytes": -0.1,
        "lucene_bytes": 0.5,
        "run_bytes": 0.5,
    }
    assert told["notes"] == ["a note"]


def test_a_store_that_no_forecast_has_counts_as_fact(tmp_path):
    more = {**RESULTS, EXTRA: result(rows=3, computed=3, num_bytes=50)}
    told = beside_facts(Forecast(LINES), more, tmp_path)
    assert "dense.dev" not in told["stages"] and told["totals"]["fact"]["bytes"] == 150


def test_what_is_unknown_or_nothing_is_off_by_nothing(tmp_path):
    unknown = Line(str(SCORES), 9, 1, False, 110.0, 12.0, bytes=90.0, model_seconds=None)
    known = Forecast([unknown])
    told = beside_facts(known, {SCORES: result(rows=9)}, tmp_path)
    assert told["totals"]["forecast"]["cpu_seconds"] is None
    assert set(told["totals"]["off"].values()) == {None}
