"""The forecast that an invocation makes before its first stage."""

from collections.abc import Callable, Sequence
from pathlib import Path

from raypipe.driver.forecast.forecast import Forecast
from raypipe.driver.forecast.foreseen import NotForeseen
from raypipe.driver.forecast.making import before_a_run, expected_stores
from raypipe.driver.machine.devices import Devices
from raypipe.driver.recipe.basis import Basis
from raypipe.names import StoreName
from raypipe.stages.stage import Stage
from raypipe.storage.storage import Storage
from raypipe.storage.stored import Stored


def run_forecast(
    basis: Basis,
    selected: Sequence[str],
    chosen: Devices,
    *,
    storage: Storage,
    compute: Callable[[StoreName, Stage], Stored],
    out: Path,
) -> Forecast | None:
    """What the run will take; None where an input is bad.

    Only the count of the records and the query sets are computed for it, as the run would first;
    see `expected_stores` for the arguments.
    """
    recipe = basis.recipe
    try:
        expected, files = expected_stores(
            recipe,
            selected,
            chosen,
            basis.sources,
            basis.models,
            storage=storage,
            compute=compute,
            out=out,
        )
        return before_a_run(expected, files, recipe, chosen)
    except NotForeseen:  # the run meets the same input, and its error names store and shard too
        return None
