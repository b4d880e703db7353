"""The forecast that an invocation makes before its first stage, and whether it fits the disk."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe.driver.forecast.forecast import Forecast, forecast_of, pending_inputs, totals_of
from raypipe.driver.forecast.rates import key_of, logged_rates
from raypipe.driver.forecast.walk import BadSample, expected_stores
from raypipe.driver.machine.devices import Devices
from raypipe.driver.machine.space import rounded, size_of
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.watching import StageResult
from raypipe.driver.workspace import Workspace
from raypipe.errors import StorageError
from raypipe.names import Role, StoreName
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


Amounts = dict[str, float | None]


def beside_facts(
    forecast: Forecast, results: Mapping[StoreName, StageResult], folder: Path
) -> dict[str, Any]:
    """The entry of summary.json: for each store and in all, the forecast and the fact.

    `off` is (forecast - fact) / fact of the totals, and None where one of them is not known or the
    fact is nothing. Only what this invocation computed is counted, and the run files in its folder.
    """
    lucene = {line.store for line in forecast.lines if line.lucene}
    facts = {str(name): _fact(name, result) for name, result in results.items()}
    told = {
        line.store: {"forecast": line.to_json(), "fact": facts[line.store]}
        for line in forecast.lines
        if line.store in facts and not line.reused
    }
    expected, found = totals_of(forecast), _totals(facts, lucene)
    files = (folder / name for name in forecast.run_files)
    found["run_bytes"] = sum(file.stat().st_size for file in files if file.exists())
    return {
        "stages": told,
        "totals": {
            "forecast": expected,
            "fact": found,
            "off": {name: _off(expected[name], found[name]) for name in expected},
        },
        "rates": {name: rate.to_json() for name, rate in forecast.rates.items()},
        "notes": [*forecast.notes],
    }


def _fact(name: StoreName, result: StageResult) -> dict[str, float]:
    scored = name.role is Role.SCORES
    return {
        "rows": result.num_rows,
        "tokens": result.num_tokens,
        "inferences": result.num_rows_computed - result.num_copied if scored else 0,
        "bytes": result.num_bytes,
        "cpu_seconds": round(result.cpu_seconds, 2),
    }


def _totals(facts: Mapping[str, Mapping[str, float]], lucene: set[str]) -> Amounts:
    found: Amounts = {
        name: sum(fact[name] for fact in facts.values())
        for name in ("tokens", "inferences", "cpu_seconds")
    }
    found["bytes"] = sum(fact["bytes"] for store, fact in facts.items() if store not in lucene)
    found["lucene_bytes"] = sum(fact["bytes"] for store, fact in facts.items() if store in lucene)
    return found


def _off(expected: float | None, found: float | None) -> float | None:
    return None if expected is None or not found else round((expected - found) / found, 4)
