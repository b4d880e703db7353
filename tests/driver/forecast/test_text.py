"""A forecast as text."""

from raypipe.driver.forecast.forecast import Forecast, Line
from raypipe.driver.forecast.plan import Costs, Plan, line_of, text_of
from raypipe.driver.forecast.rates import Rate

LINES = [
    Line("old", 5, 1, True),
    Line("lucene", 5, 1, False, bytes=2e6, other_seconds=1.0, lucene=True),
    Line("scores@mono.dev", 7, 2, False, 1234.0, 7.0, 7.0, 7.0, 3e6, 0.5, 8.5),
    Line("scores@more.dev", 5, 2, False, 0.0, 5.0, 3.0, 7.0),
]
RATE = Rate(4321.4, "log")
FORECAST = Forecast(LINES, {"scores@mono.dev": RATE}, 0.0, ["a note"])
UNKNOWN = Forecast([Line("x", 1, 1, False, 10.0, model_seconds=None)])


def test_the_line_before_a_run_has_the_sums_and_what_is_there():
    assert line_of(FORECAST) == (
        "forecast: 1,234 tokens, 12 inferences, 5.0 MB of stores, 10 CPU seconds; 1 stores of 4 "
        "are there"
    )
    assert line_of(UNKNOWN) == "forecast: 10 tokens, 0.0 MB of stores; 0 stores of 1 are there"


def test_the_tables_have_every_store_and_every_sum():
    costs = Costs(hours=0.5, gpu_hours=0.25, money=1.5, memory_bytes=2.5e9)
    text = text_of(Plan(FORECAST, costs, "2 x H100, bf16", None))
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines()]
    for wanted in (
        ["scores@mono.dev", "7", "1,234", "7", "3.00", "9.0"],
        ["scores@more.dev", "5", "0", "5 (3 to 7)", "0.00", "0.0"],
        ["inferences of rerankers", "12 (10 to 14)"],
        ["disk, without Lucene", "3.0 MB"],
        ["disk, Lucene", "2.0 MB"],
        ["memory of the workers, at least", "2.5 GB"],
        ["hours", "0.50"],
        ["GPU-hours of the models", "0.25"],
        ["money for them", "1.50 usd"],
        ["stores that are there", "old"],
        ["tokens a CPU second, scores@mono.dev", "4,321 (log)"],
    ):
        assert wanted in rows, wanted
    assert "## In all: 2 x H100, bf16" in text and text.endswith("- a note\n")


def test_what_is_not_known_is_a_dash():
    costs = Costs(hours=None, gpu_hours=None, money=None, memory_bytes=0.0)
    text = text_of(Plan(UNKNOWN, costs, "CPU", None))
    assert "| hours                           | -" in text and "GPU-hours" not in text
