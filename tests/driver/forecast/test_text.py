"""A forecast as text, and its hours."""

import pytest

from raypipe.driver.devices import Devices
from raypipe.driver.forecast.forecast import Forecast, Line
from raypipe.driver.forecast.plan import Plan
from raypipe.driver.forecast.rates import Rate

LINES = [
    Line("old", 5, 1, True),
    Line("lucene", 5, 1, False, bytes=2e6, other_seconds=1.0),
    Line("scores@mono.dev", 7, 2, False, 1234.0, 7.0, 3e6, 0.5, 8.5),
    Line("scores@more.dev", 5, 2, False, 0.0, 5.0),
]
RATE = Rate(4321.4, "log")
FORECAST = Forecast(LINES, {"scores@mono.dev": RATE}, ["a note"])
UNKNOWN = Forecast([Line("x", 1, 1, False, 10.0, model_seconds=None)])
CPU = Devices("cpu", 0, "", 0, 2, 1, "2.13")


def test_the_line_before_a_run_has_the_sums_and_what_is_there():
    assert str(FORECAST) == (
        "forecast: 1,234 tokens, 12 inferences, 5.0 MB of stores, 10 seconds of work; 1 stores of "
        "4 are there"
    )
    assert str(UNKNOWN) == "forecast: 10 tokens, 0.0 MB of stores; 0 stores of 1 are there"


def test_the_tables_have_every_store_and_every_sum():
    text = Plan(FORECAST, CPU).text()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines()]
    for wanted in (
        ["scores@mono.dev", "7", "1,234", "7", "3.00", "9.0"],
        ["scores@more.dev", "5", "0", "5", "0.00", "0.0"],
        ["inferences of rerankers, at most", "12"],
        ["disk, stores", "5.0 MB"],
        ["hours", "0.00"],
        ["stores that are there", "1 of 4"],
        ["tokens a second, scores@mono.dev", "4,321 (log)"],
    ):
        assert wanted in rows, wanted
    assert "## In all: CPU, torch 2.13" in text and text.endswith("- a note")


def test_what_is_not_known_is_a_dash():
    assert "| hours                            | -" in Plan(UNKNOWN, CPU).text()


def test_a_store_is_computed_by_as_many_workers_as_it_has_shards():
    def line(shards, other, model=0.0):
        return Line("x", 1, shards, False, other_seconds=other, model_seconds=model)

    found = Forecast([line(8, 16.0, 7200.0), line(1, 360.0)]).hours(workers=4, cores=2)
    assert found == pytest.approx((7200 / 4 + 16 / 2 + 360) / 3600)
    assert Forecast([line(8, 16.0, None), line(1, 1.0)]).hours(workers=3, cores=2) is None
