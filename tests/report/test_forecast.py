"""The section of a report with a run's forecast and fact."""

from raypipe.report.contents import forecasting

SIDES = {"tokens": 110, "inferences": 0, "bytes": 90, "cpu_seconds": None}
TOLD = {
    "stages": {
        "vectors": {"forecast": SIDES, "fact": {**SIDES, "tokens": 100, "cpu_seconds": 2.0}}
    },
    "totals": {
        "forecast": {"tokens": 110, "cpu_seconds": None},
        "fact": {"tokens": 100, "cpu_seconds": 2.0},
        "off": {"tokens": 0.1, "cpu_seconds": None},
    },
    "notes": ["short"],
}


def test_a_run_without_a_forecast_has_no_section():
    assert forecasting({}) is None


def test_the_totals_and_the_stores_are_shown_with_what_they_are_off():
    section = forecasting({"forecast": TOLD})
    assert (section.name, section.query_set, section.notes) == ("forecast", "all", ["short"])
    in_all, by_store = section.tables
    assert in_all.rows == [
        ["tokens that models read", 110, 100, "+10.0%"],
        ["CPU seconds of the workers", None, 2.0, None],
    ]
    assert by_store.columns[:3] == ["store", "forecast tokens", "fact tokens"]
    assert by_store.rows == [["vectors", 110, 100, 0, 0, 90, 90, None, 2.0]]
