"""`raypipe plan`: a forecast of a recipe, with nothing written but in a folder of its own."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raypipe.cluster.inline import InlineBackend
from raypipe.config import Recipe, missing_inputs, select
from raypipe.driver.forecast.budget import Budget, Costs, check_budget, costs_of, parse_budget
from raypipe.driver.forecast.flops import UTILISATION, assumed_rate
from raypipe.driver.forecast.forecast import Forecast, forecast_of, pending_inputs
from raypipe.driver.forecast.rates import Key, Rate, key_of, logged_rates, probed_rates
from raypipe.driver.forecast.walk import Expected, expected_stores
from raypipe.driver.machine.backends import LazyBackends
from raypipe.driver.machine.devices import Devices, num_cores
from raypipe.driver.machine.inputs import with_copies
from raypipe.driver.machine.place import Place
from raypipe.driver.mirror import default_stores
from raypipe.driver.models.named import with_commits
from raypipe.driver.models.opened import open_or_tell
from raypipe.driver.recipe.execute import Execution
from raypipe.driver.recipe.read_first import read_first
from raypipe.driver.recipe.watching import Silent
from raypipe.driver.recipe.written.builtin import with_files
from raypipe.driver.recipe.written.topics import with_topics
from raypipe.driver.working import devices_for, sizing_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, LimitError
from raypipe.storage.root import check_root, open_storage


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
        named = with_files(recipe, aside / "python-docs")
        named, sources = with_copies(named, aside / "inputs")
        named = with_topics(named, workspace, lambda line: None)
        read_first(named, problems)
        backends = LazyBackends(InlineBackend, chosen.num_actors)
        execution = Execution(workspace, backends, sizing_of(named.resources, chosen), Silent())

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
    place = Place("inline")
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
