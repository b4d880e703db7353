"""`raypipe plan`: a forecast of a recipe, with nothing written but in a folder of its own."""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from raypipe.cluster.inline import InlineBackend
from raypipe.config import Recipe, missing_inputs, select
from raypipe.driver.devices import Devices, num_cores
from raypipe.driver.execute import Execution, Watcher
from raypipe.driver.forecast.forecast import Forecast, forecast_of, pending_inputs, totals_of
from raypipe.driver.forecast.rates import (
    UTILISATION,
    Key,
    Rate,
    assumed_rate,
    key_of,
    logged_rates,
    probed_rates,
)
from raypipe.driver.forecast.walk import Expected, expected_stores
from raypipe.driver.inputs import with_local_files
from raypipe.driver.mirror import default_stores
from raypipe.driver.models import open_or_tell, with_commits
from raypipe.driver.place import LazyBackends, WorkPlace
from raypipe.driver.recipe.read_first import read_first
from raypipe.driver.working import devices_for, sizing_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, LimitError
from raypipe.markdown import markdown_table
from raypipe.storage.root import check_root, open_storage

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of `raypipe plan`."""

    gpus: int | None = None
    gpu: str | None = None
    price: float | None = None
    budget: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is printed."""

    forecast: Forecast
    costs: Costs
    device: str
    beyond: LimitError | None
    """Raised once the forecast was printed."""

    def to_json(self) -> dict[str, Any]:
        """One object, for `--json`."""
        found = {**self.forecast.to_json(), "costs": self.costs.to_json(), "device": self.device}
        return {**found, "within_budget": self.beyond is None}


def make_plan(recipe: Recipe, out: Path, wanted: Wanted = Wanted()) -> Plan:
    """The forecast of a whole recipe, as a run in `out` would find it; nothing there is changed.

    Raises:
        InputError: all inputs that are missing; an option that does not fit.
    """
    budget = None if wanted.budget is None else parse_budget(wanted.budget)
    _check(wanted)
    problems = missing_inputs(recipe)
    if problems:
        raise InputError(problems)
    storage = open_storage(recipe.stores or default_stores(out))
    check_root(storage)
    chosen, gpu_flops, notes = _devices(recipe, wanted)
    update = {"precision": chosen.precision}
    recipe = recipe.model_copy(update={"resources": recipe.resources.model_copy(update=update)})
    recipe, problems = with_commits(recipe, out, lambda line: None)
    models, problems = open_or_tell(recipe, select(recipe), problems, lambda line: None)
    with tempfile.TemporaryDirectory(prefix="raypipe-plan-") as folder:
        aside = Path(folder)
        workspace = Workspace(aside / "work")
        named, sources = with_local_files(recipe, workspace)
        read_first(named, problems)
        backends = LazyBackends(InlineBackend, chosen.num_actors)
        execution = Execution(workspace, backends, sizing_of(named.resources, chosen), Watcher())

        try:
            expected, files = expected_stores(
                named,
                select(named),
                chosen,
                sources,
                models,
                storage=storage,
                compute=execution.ensure,
                out=out,
            )
        finally:
            backends.close()
        on_gpus = gpu_flops is not None
        rates, how = ({}, "") if on_gpus else _rates(expected, named, chosen, out)
        notes += [how] if how else []
        forecast = forecast_of(expected, rates, notes, files)
        costs = costs_of(
            forecast,
            workers=chosen.num_gpus if on_gpus else chosen.num_actors,
            cores=num_cores(),
            gpu_flops=gpu_flops,
            price=wanted.price,
        )
    return Plan(forecast, costs, _device(chosen), _beyond(costs, budget))


def _rates(
    expected: Sequence[Expected], recipe: Recipe, chosen: Devices, out: Path
) -> tuple[dict[Key, Rate], str]:
    """The rates of the models, and a note on where they are from."""
    inputs = pending_inputs(expected)
    device = chosen.line().removeprefix("device: ")
    rates = logged_rates(inputs, Workspace(out, recipe.stores), device) if out.exists() else {}
    budget = recipe.resources.budget_tokens
    unknown = [each for each in inputs if key_of(each) not in rates]
    probed = probed_rates(unknown, chosen, budget if isinstance(budget, int) else None)
    told = ["those of the last run's log"] if rates else []
    told += ["those of a probe on this machine's CPU"] if probed else []
    return rates | probed, f"the models' rates are {' and '.join(told)}" if told else ""


def _check(wanted: Wanted) -> None:
    problems = []
    if wanted.gpus is not None and wanted.gpus < 1:
        problems.append(f"--gpus {wanted.gpus}: expected 1 or more")
    if wanted.price is not None and not wanted.price >= 0:
        problems.append(f"--price {wanted.price}: expected 0 or more")
    if wanted.gpu is None and wanted.gpus is not None:
        problems.append("--gpus: expected --gpu NAME as well; the rate depends on the kind of GPU")
    if wanted.gpu is None and wanted.price is not None:
        problems.append("--price: it is that of a GPU-hour; expected --gpu NAME as well")
    if problems:
        raise InputError(problems)


def _devices(recipe: Recipe, wanted: Wanted) -> tuple[Devices, float | None, list[str]]:
    """The devices that are planned for, a GPU's assumed operations a second, and notes."""
    place = WorkPlace("inline")
    if wanted.gpu is None:
        chosen = devices_for(place, recipe.resources)
        if chosen.device == "cpu":
            joined = ["RAY_ADDRESS is not looked at"] if os.environ.get("RAY_ADDRESS") else []
            return chosen, None, joined
        rate, _ = assumed_rate(chosen.gpu_name, chosen.precision)
        return chosen, rate, [_assumed(chosen.gpu_name, rate, chosen.precision)]
    rate, precision = assumed_rate(wanted.gpu, recipe.resources.precision)
    number = wanted.gpus or 1
    chosen = Devices("cuda", number, wanted.gpu, number, number, 1, "", precision)
    return chosen, rate, [_assumed(wanted.gpu, rate, precision)]


def _assumed(gpu: str, rate: float, precision: str) -> str:
    return (
        f"never measured: {gpu} is assumed to do {rate / 1e12:.0f} TFLOP/s in {precision}, "
        f"{UTILISATION:.0%} of its peak; loading, copying and idle time are not in it"
    )


def _device(chosen: Devices) -> str:
    if chosen.device == "cuda":
        return f"{chosen.num_gpus} x {chosen.gpu_name}, {chosen.precision}"
    return chosen.line().removeprefix("device: ")


def _beyond(costs: Costs, budget: Budget | None) -> LimitError | None:
    try:
        if budget is not None:
            check_budget(costs, budget)
    except LimitError as error:
        return error
    return None


def line_of(forecast: Forecast) -> str:
    """`forecast: 1,234,000 tokens, 6,460 inferences, 12.3 MB of stores, 4.5 MB of runs, 95 CPU
    seconds; 3 stores of 20 are there`."""
    totals = totals_of(forecast)
    num_bytes = (totals["bytes"] or 0.0) + (totals["lucene_bytes"] or 0.0)
    parts = [f"{totals['tokens'] or 0:,.0f} tokens"]
    parts += [f"{totals['inferences']:,.0f} inferences"] if totals["inferences"] else []
    parts.append(f"{num_bytes / 1e6:,.1f} MB of stores")
    parts += [f"{totals['run_bytes'] / 1e6:,.1f} MB of runs"] if totals["run_bytes"] else []
    seconds = totals["cpu_seconds"]
    parts += [] if seconds is None else [f"{seconds:,.0f} CPU seconds"]
    there = f"{len(forecast.reused)} stores of {len(forecast.lines)} are there"
    return f"forecast: {', '.join(parts)}; {there}"


def text_of(plan: Plan) -> str:
    """The tables as Markdown: what is not there yet by store, the totals, the run files; notes."""
    forecast, costs = plan.forecast, plan.costs
    blocks = ["## Forecast by store", ""]
    blocks += markdown_table(
        ["store", "rows", "tokens", "inferences", "MB", "CPU seconds"],
        [
            [
                line.store,
                f"{line.rows:,.0f}",
                f"{line.tokens:,.0f}",
                _range(line.inferences, line.least, line.most),
                f"{line.bytes / 1e6:,.2f}",
                _digit(line.cpu_seconds),
            ]
            for line in forecast.lines
            if not line.reused
        ],
    )
    totals = totals_of(forecast)
    rows = [
        ["tokens that models read", f"{totals['tokens']:,.0f}"],
        [
            "inferences of rerankers",
            _range(totals["inferences"] or 0.0, *forecast.inferences_range),
        ],
        ["disk, without Lucene", f"{(totals['bytes'] or 0) / 1e6:,.1f} MB"],
        ["disk, Lucene", f"{(totals['lucene_bytes'] or 0) / 1e6:,.1f} MB"],
        ["disk, run files", f"{(totals['run_bytes'] or 0) / 1e6:,.1f} MB"],
        ["memory of the workers, at least", f"{costs.memory_bytes / 1e9:,.1f} GB"],
        ["CPU seconds", _digit(totals["cpu_seconds"])],
        ["hours", "-" if costs.hours is None else f"{costs.hours:,.2f}"],
        ["stores that are there", ", ".join(forecast.reused) or "none"],
    ]
    if costs.gpu_hours is not None:
        rows.append(["GPU-hours of the models", f"{costs.gpu_hours:,.2f}"])
    if costs.money is not None:
        rows.append(["money for them", f"{costs.money:,.2f} usd"])
    for name, rate in forecast.rates.items():
        rows.append([f"tokens a CPU second, {name}", f"{rate.tokens_per_second:,.0f} ({rate.by})"])
    blocks += ["", f"## In all: {plan.device}", "", *markdown_table(["what", "forecast"], rows)]
    if forecast.run_files:
        sizes = [[name, f"{size / 1e6:,.2f}"] for name, size in forecast.run_files.items()]
        blocks += ["", "## Run files", "", *markdown_table(["file", "MB"], sizes)]
    return "\n".join([*blocks, "", *(f"- {note}" for note in forecast.notes)]) + "\n"


def _range(value: float, least: float, most: float) -> str:
    """`1,500`, or `1,500 (1,000 to 2,000)`."""
    if round(least) == round(most):
        return f"{value:,.0f}"
    return f"{value:,.0f} ({least:,.0f} to {most:,.0f})"


def _digit(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
