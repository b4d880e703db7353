"""Hours, money and memory, by hand."""

import pytest

from raypipe.driver.forecast.forecast import Forecast, Line
from raypipe.driver.forecast.plan import (
    BASE_BYTES,
    Budget,
    Costs,
    check_budget,
    costs_of,
    parse_budget,
)
from raypipe.errors import InputError, LimitError


def forecast(*lines):
    return Forecast(lines, weights_bytes=1e9)


def line(shards=1, other=0.0, model=0.0, flops=0.0):
    return Line("x", 1, shards, False, other_seconds=other, model_seconds=model, model_flops=flops)


def test_a_store_is_computed_by_as_many_workers_as_it_has_shards():
    found = costs_of(forecast(line(8, 0.0, 7200.0), line(1, 360.0)), workers=4, cores=4)
    assert found.hours == pytest.approx((7200 / 4 + 360) / 3600)
    assert found.gpu_hours is None and found.money is None
    assert found.memory_bytes == 4 * (BASE_BYTES + 1e9)


def test_gpus_take_the_models_work_and_the_cores_the_rest():
    lines = [line(8, 16.0, None, 6e15), line(1, 0.0, 0.0, 1e15)]
    found = costs_of(forecast(*lines), workers=3, cores=2, gpu_flops=1e12, price=2.0)
    assert found.gpu_hours == pytest.approx(7000 / 3600)
    assert found.hours == pytest.approx((6000 / 3 + 1000 + 16 / 2) / 3600)
    assert found.money == pytest.approx(2 * 7000 / 3600)


def test_the_hours_are_unknown_where_a_rate_is():
    found = costs_of(forecast(line(8, 16.0, None), line(1, 1.0)), workers=3, cores=2)
    assert found.hours is None


@pytest.mark.parametrize(
    ("text", "found"), [("40h", (40, "h")), ("0.5H", (0.5, "h")), (" 100usd", (100, "usd"))]
)
def test_a_budget_is_hours_or_dollars(text, found):
    assert parse_budget(text) == Budget(*found)


@pytest.mark.parametrize("text", ["40", "h", "-1h", "4 h", "1e3h", "5eur", "4hours"])
def test_any_other_budget_is_refused(text):
    with pytest.raises(InputError, match="such as 40h or 100usd"):
        parse_budget(text)


def test_a_budget_is_passed_only_by_more():
    costs = Costs(hours=4.0, gpu_hours=None, money=None, memory_bytes=0)
    check_budget(costs, Budget(4.0, "h"))
    with pytest.raises(LimitError, match=r"4.00 hours, and --budget allows 3.9; nothing"):
        check_budget(costs, Budget(3.9, "h"))


def test_hours_are_gpu_hours_where_there_are_gpus():
    costs = Costs(hours=9.0, gpu_hours=2.0, money=20.0, memory_bytes=0)
    check_budget(costs, Budget(2.5, "h"))
    with pytest.raises(LimitError, match=r"2.00 GPU-hours, and --budget allows 1;"):
        check_budget(costs, Budget(1.0, "h"))
    with pytest.raises(LimitError, match=r"20.00 usd, and --budget allows 19.5"):
        check_budget(costs, Budget(19.5, "usd"))


def test_what_the_forecast_does_not_say_is_no_budget():
    nothing = Costs(hours=None, gpu_hours=None, money=None, memory_bytes=0)
    with pytest.raises(InputError, match="no rate of the models is known"):
        check_budget(nothing, Budget(1.0, "h"))
    with pytest.raises(InputError, match="needs --gpu NAME and --price"):
        check_budget(nothing, Budget(1.0, "usd"))
