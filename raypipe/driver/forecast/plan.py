"""`raypipe plan`: a forecast of a recipe, with nothing written but in a folder of its own."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raypipe.cluster.worker import InlineBackend
from raypipe.config.paths import missing_inputs
from raypipe.config.recipe import Recipe, select
from raypipe.driver.devices import Devices, num_cores
from raypipe.driver.execute import Execution, Watcher
from raypipe.driver.forecast.forecast import Forecast, make_forecast
from raypipe.driver.forecast.rates import key_of, logged_rates, probed_rates
from raypipe.driver.inputs import with_local_files
from raypipe.driver.mirror import default_stores
from raypipe.driver.models import open_or_tell, with_commits
from raypipe.driver.place import LazyBackends, WorkPlace, devices_at, sizing_of
from raypipe.driver.proof.proof import computable
from raypipe.driver.recipe.collection import unread
from raypipe.driver.recipe.fit import fit_of_files
from raypipe.driver.recipe.read_first import read_first
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.markdown import Table, Text
from raypipe.storage.root import check_root, open_storage


@dataclass(frozen=True, slots=True)
class Plan:
    """A forecast for the devices of this machine."""

    forecast: Forecast
    chosen: Devices

    @property
    def hours(self) -> float | None:
        """Hours of the clock on the devices chosen; None where a rate is not known."""
        return self.forecast.hours(self.chosen.num_actors, num_cores())

    def to_json(self) -> dict[str, Any]:
        """One object, for `--json`."""
        device = self.chosen.line().removeprefix("device: ")
        return {**self.forecast.to_json(), "hours": self.hours, "device": device}

    def text(self) -> Text:
        """The table for people: what is not there yet by store, the totals, notes."""
        forecast, totals = self.forecast, self.forecast.totals
        header = ["store", "rows", "tokens", "inferences", "MB", "seconds"]
        stores = [
            [
                line.store,
                f"{line.rows:,.0f}",
                f"{line.tokens:,.0f}",
                f"{line.inferences:,.0f}",
                f"{line.bytes / 1e6:,.2f}",
                _digit(line.seconds),
            ]
            for line in forecast.lines
            if not line.reused
        ]
        blocks = list[str | Table]()
        if stores:
            blocks += ["## Forecast by store", "", Table("", header, stores), ""]
        rows = [
            ["tokens that models read", f"{totals['tokens']:,.0f}"],
            ["inferences of rerankers, at most", f"{totals['inferences']:,.0f}"],
            ["disk, stores", f"{(totals['bytes'] or 0) / 1e6:,.1f} MB"],
            ["seconds of work, of all workers", _digit(totals["seconds"])],
            ["hours", "-" if self.hours is None else f"{self.hours:,.2f}"],
            ["stores that are there", f"{len(forecast.reused)} of {len(forecast.lines)}"],
        ]
        for name, rate in forecast.rates.items():
            rows.append([f"tokens a second, {name}", f"{rate.tokens_per_second:,.0f} ({rate.by})"])
        device = self.chosen.line().removeprefix("device: ")
        blocks += [f"## In all: {device}", "", Table("", ["what", "forecast"], rows)]
        return Text([*blocks, "", *(f"- {note}" for note in forecast.notes)])


def make_plan(recipe: Recipe, out: Path) -> Plan:
    """The forecast of a whole recipe, as a run in `out` would find it; nothing there is changed.

    Raises:
        InputError: all inputs that are missing.
    """
    problems = missing_inputs(recipe)
    if problems:
        raise InputError(problems)
    storage = open_storage(recipe.stores or default_stores(out))
    check_root(storage)
    chosen = devices_at(WorkPlace(recipe.resources.backend), recipe.resources)
    update = {"precision": chosen.precision}
    recipe = recipe.model_copy(update={"resources": recipe.resources.model_copy(update=update)})
    recipe, problems = with_commits(recipe, out, lambda line: None)
    models, problems = open_or_tell(recipe, select(recipe), problems, lambda line: None)
    with tempfile.TemporaryDirectory(prefix="raypipe-plan-") as folder:
        workspace = Workspace(Path(folder) / "work")
        named, sources = with_local_files(recipe, workspace)
        unfit = fit_of_files(named, read_first(named, problems))
        models = computable(models, storage, make=False)
        backends = LazyBackends(InlineBackend, chosen.num_actors)
        sizing = sizing_of(named.resources, chosen)
        try:
            forecast = make_forecast(
                named,
                select(named),
                chosen,
                sources,
                models,
                storage=storage,
                compute=Execution(workspace, backends, sizing, Watcher()).ensure,
            )
        finally:
            backends.close()
        inputs = forecast.inputs
        logged = logged_rates(inputs, Workspace(out, recipe.stores), chosen) if out.exists() else {}
        unknown = [each for each in inputs if key_of(each) not in logged]
        budget = recipe.resources.budget_tokens
        probed = probed_rates(unknown, chosen, budget if isinstance(budget, int) else None)
        sources_of_rates = ["those of the last run's log"] if logged else []
        sources_of_rates += ["those of a probe on this machine"] if probed else []
        notes = ["RAY_ADDRESS is not looked at"] if os.environ.get("RAY_ADDRESS") else []
        notes += [*unfit, *unread(named.collection)]
        if sources_of_rates:
            notes.append(f"the models' rates are {' and '.join(sources_of_rates)}")
        return Plan(forecast.with_rates(logged | probed, notes), chosen)


def _digit(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
