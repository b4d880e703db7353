"""Makes a forecast: walks the recipe, then probes the models that it would run."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from raypipe.config import Recipe
from raypipe.driver.forecast.flops import flops_of
from raypipe.driver.forecast.forecast import Forecast, forecast_of
from raypipe.driver.forecast.foreseen import Expected, Foreseen
from raypipe.driver.forecast.probe import (
    FEW_GROUPS,
    FEW_TOKENS,
    GROUPS,
    STEP_TOKENS,
    Rate,
    largest,
    measured_rate,
)
from raypipe.driver.forecast.run_files import run_files
from raypipe.driver.forecast.seen import SeenStores
from raypipe.driver.machine.devices import Devices
from raypipe.driver.recipe.walking import systems_of
from raypipe.driver.working import basis_at, sizing_of
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import StoreName
from raypipe.stages.outlook.outlook import ModelInputs
from raypipe.stages.stage import Stage
from raypipe.storage.posix import PosixStorage
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

SLOW_FLOPS = 50e9
"""Of a second of a core: more than most do, so that a short work is not taken for a long one."""
SHORT_SECONDS = 20.0
"""Work that takes less, even so, is not probed before a run: it is soon known what it took."""
BEFORE_A_RUN = 3.0
"""Seconds of a probe before a run, for all models together."""


def expected_stores(
    recipe: Recipe,
    selected: Sequence[str],
    chosen: Devices,
    sources: Mapping[str, str],
    models: Mapping[str, ModelFolder],
    *,
    storage: Storage,
    compute: Callable[[StoreName, Stage], Stored],
    out: Path,
) -> tuple[list[Expected], dict[str, float]]:
    """Every store that the selected stages need, in order: those there, and what others take.

    Also the bytes of the run files: see `run_files`.

    Args:
        recipe: with files in the place of what is built in.
        selected: names of stages.
        chosen: the devices of the run.
        sources: see Basis.
        models: the recipe's models, opened.
        storage: where existing stores are looked for; nothing is written there.
        compute: computes the small stores that decide the others.
        out: the workspace's folder.

    Raises:
        InputError: a model or file does not fit a stage.
    """
    seen = SeenStores(sizing_of(recipe.resources, chosen))
    with tempfile.TemporaryDirectory(prefix="raypipe-forecast-") as folder:
        stores = Foreseen(storage, compute, seen, PosixStorage(Path(folder)))
        basis = basis_at(recipe, stores, chosen, sources, models)
        systems = systems_of(basis, list(selected))
        files = run_files(basis, systems, seen, out)
    return [*stores.found.values()], files


def probed(
    expected: Sequence[Expected],
    recipe: Recipe,
    chosen: Devices,
    *,
    seconds: float,
    num_groups: int = GROUPS,
    step_tokens: int = STEP_TOKENS,
) -> dict[tuple[str, bool], Rate]:
    """The rate of each model that has inputs, in about so many seconds for all of them."""
    models = largest(pending_inputs(expected))
    asked = recipe.resources.budget_tokens
    budget = asked if isinstance(asked, int) else None
    each = seconds / max(1, len(models))
    return {
        key: measured_rate(
            inputs,
            chosen.threads,
            budget,
            seconds=each,
            num_groups=num_groups,
            step_tokens=step_tokens,
        )
        for key, inputs in models.items()
    }


def before_a_run(
    expected: Sequence[Expected], files: Mapping[str, float], recipe: Recipe, chosen: Devices
) -> Forecast:
    """The forecast that costs a run at most a few seconds.

    Models are probed only on a CPU, and only if there is work for more than a moment.
    """
    inputs = pending_inputs(expected)
    flops = sum(
        float(flops_of(each.model, each.lengths).mean()) * each.number
        for each in inputs
        if len(each.lengths)
    )
    rates: dict[tuple[str, bool], Rate] = {}
    notes = []
    if chosen.device != "cpu":
        notes.append("the models' seconds are not foreseen: only CPUs are probed before a run")
    elif flops / SLOW_FLOPS < SHORT_SECONDS:
        notes += ["the models' seconds are not foreseen: their work is short"] if inputs else []
    else:
        rates = probed(
            expected,
            recipe,
            chosen,
            seconds=BEFORE_A_RUN,
            num_groups=FEW_GROUPS,
            step_tokens=FEW_TOKENS,
        )
    return forecast_of(expected, rates, notes, files)


def pending_inputs(expected: Sequence[Expected]) -> list[ModelInputs]:
    """What models will read for the stores that are not there."""
    found = [each.outlook.inputs for each in expected if not each.reused]
    return [inputs for inputs in found if inputs is not None and inputs.number]
