"""Time and money of a forecast, and the limit that a user sets them."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from raypipe.driver.forecast.forecast import Forecast
from raypipe.errors import InputError, LimitError

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)(h|usd)")
BASE_BYTES = 600e6
"""Memory of a worker without weights: Python, torch, and the stage's own blocks."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a run may take."""

    amount: float
    unit: Literal["h", "usd"]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a run takes of the machine; hours are None where a model's rate is unknown."""

    hours: float | None
    """Of the clock, from the first store to the last, start-up and evaluation excluded."""
    gpu_hours: float | None
    """Of the models' work alone; None without a GPU."""
    money: float | None
    """The GPU-hours at the price of one; None without a price."""
    memory_bytes: float
    """Of all workers of the largest model together."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "hours": self.hours,
            "gpu_hours": self.gpu_hours,
            "money": self.money,
            "memory_bytes": round(self.memory_bytes),
        }


def parse_budget(text: str) -> Budget:
    """`40h` or `100usd`.

    Raises:
        InputError: anything else.
    """
    found = _BUDGET.fullmatch(text.strip().lower())
    if found is None:
        raise InputError(f"--budget {text}: expected hours or dollars, such as 40h or 100usd")
    return Budget(float(found[1]), "h" if found[2] == "h" else "usd")


def costs_of(
    forecast: Forecast,
    *,
    workers: int,
    cores: int,
    gpu_flops: float | None = None,
    price: float | None = None,
) -> Costs:
    """Time, memory and money.

    Args:
        forecast: whose CPU seconds are shared by as many workers as a store has shards for.
        workers: of a model's stage: actors, or GPUs.
        cores: of the machine, for what no model computes.
        gpu_flops: operations a second of one GPU; None if models run on the CPU.
        price: of a GPU-hour.
    """
    seconds: float | None = 0.0
    gpu_seconds = 0.0
    for line in forecast.lines:
        at_once = max(1, min(workers, line.shards))
        model = line.model_seconds
        if gpu_flops is not None:
            model = line.model_flops / gpu_flops
            gpu_seconds += model
        other = line.other_seconds / max(1, min(cores, line.shards))
        if seconds is not None:
            seconds = None if model is None else seconds + other + model / at_once
    gpu_hours = gpu_seconds / 3600 if gpu_flops is not None else None
    money = gpu_hours * price if gpu_hours is not None and price is not None else None
    hours = None if seconds is None else seconds / 3600
    return Costs(hours, gpu_hours, money, workers * (BASE_BYTES + forecast.weights_bytes))


def check_budget(costs: Costs, budget: Budget) -> None:
    """Returns nothing if the forecast is within the budget; hours are GPU-hours if there are GPUs.

    Raises:
        LimitError: it is not.
        InputError: the forecast does not say, with what is missing.
    """
    if budget.unit == "usd":
        if costs.money is None:
            raise InputError("--budget in dollars needs --gpu NAME and --price PER_GPU_HOUR")
        what, found = "usd", costs.money
    else:
        hours = costs.gpu_hours if costs.gpu_hours is not None else costs.hours
        if hours is None:
            raise InputError("--budget: no rate of the models is known, so neither are the hours")
        what, found = ("GPU-hours" if costs.gpu_hours is not None else "hours"), hours
    if found > budget.amount:
        raise LimitError(
            f"the forecast is {found:,.2f} {what}, and --budget allows {budget.amount:g}; nothing "
            "was run"
        )
