"""The forecast that an invocation makes before its first stage, and whether it fits the disk."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from raypipe.driver.forecast.forecast import Forecast, forecast_of, pending_inputs
from raypipe.driver.forecast.rates import key_of, logged_rates
from raypipe.driver.forecast.walk import BadSample, expected_stores
from raypipe.driver.machine.devices import Devices
from raypipe.driver.machine.space import rounded, size_of
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.workspace import Workspace
from raypipe.errors import StorageError
from raypipe.names import StoreName
from raypipe.stages.stage import Stage
from raypipe.storage.store import Stored


def run_forecast(
    basis: Basis,
    selected: Sequence[str],
    chosen: Devices,
    *,
    workspace: Workspace,
    compute: Callable[[StoreName, Stage], Stored],
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
            storage=workspace.stores,
            compute=compute,
            out=workspace.folder,
        )
    except BadSample:  # the run meets the same input, and its error names store and shard too
        return None
    inputs = pending_inputs(expected)
    rates = logged_rates(inputs, workspace, chosen.line().removeprefix("device: "))
    missing = any(key_of(each) not in rates for each in inputs)
    note = "the seconds of models are not known: the workspace has no log of them on this device"
    return forecast_of(expected, rates, [note] if missing else [], files)


def check_forecast(forecast: Forecast, workspace: Workspace) -> None:
    """Returns nothing if the stores and the run files of a forecast fit the free space.

    A store that replaces an older one may copy rows whose bytes are there: it is left to
    `check_space`. A run file takes what it is larger than the one that it replaces.

    Raises:
        StorageError: they do not fit; the message gives each place, the needed and the free bytes.
    """
    folder, stores = workspace.folder, workspace.stores
    written = _growth(folder, forecast.run_files)
    disks = [({f"run files in {folder / 'runs'}": written}, shutil.disk_usage(folder).free)]
    if (in_stores := stores.free_bytes()) is not None:
        older = workspace.refs()
        new = sum(line.bytes for line in forecast.lines if line.store not in older)
        kept = {f"stores in {stores.uri}": new}
        if _disk(Path(stores.uri)) == _disk(folder):
            disks = [(kept | disks[0][0], disks[0][1])]
        else:
            disks.append((kept, in_stores))
    short = [
        f"expected {size_of(sum(needed.values()))} free, found {size_of(free)}: "
        + " and ".join(f"{rounded(size)} for the {what}" for what, size in needed.items())
        for needed, free in disks
        if sum(needed.values()) > free
    ]
    if short:
        raise StorageError(
            f"{'; '.join(short)}. No stage has begun: free space there, or name another --out, "
            "or another place with the recipe key `stores`"
        )


def _growth(folder: Path, files: Mapping[str, float]) -> float:
    """The bytes that files take more than those of the same names."""
    there = {name: (folder / name).stat().st_size for name in files if (folder / name).exists()}
    return sum(max(0.0, size - there.get(name, 0)) for name, size in files.items())


def _disk(place: Path) -> int:
    """The device of a folder that may not exist yet."""
    return next(part for part in (place, *place.parents) if part.exists()).stat().st_dev
