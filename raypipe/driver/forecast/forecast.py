"""The forecast of a recipe: what each of its stores will take."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raypipe.driver.devices import Devices
from raypipe.driver.execute import StageResult, rounded, size_of
from raypipe.driver.forecast.amounts import ModelInputs
from raypipe.driver.forecast.rates import Key, Rate, flops_of, key_of, logged_rates
from raypipe.driver.forecast.walk import BadSample, Expected, expected_stores
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.workspace import Workspace
from raypipe.errors import StorageError
from raypipe.names import Role, StoreName
from raypipe.stages.stage import Stage
from raypipe.storage.store import Stored


@dataclass(frozen=True, slots=True)
class Line:
    """What one store will take of this invocation; nothing of one that is there."""

    store: str
    rows: float
    shards: int
    reused: bool
    tokens: float = 0.0
    inferences: float = 0.0
    least: float = 0.0
    """Inferences if as many scores are shared with other requests as can be."""
    most: float = 0.0
    """Inferences if none are."""
    bytes: float = 0.0
    other_seconds: float = 0.0
    """CPU seconds of what no model computes."""
    model_seconds: float | None = 0.0
    """CPU seconds of a model; None where its rate is not known."""
    model_flops: float = 0.0
    lucene: bool = False

    @property
    def cpu_seconds(self) -> float | None:
        """All of them; None where a model's rate is not known."""
        return None if self.model_seconds is None else self.other_seconds + self.model_seconds

    def to_json(self) -> dict[str, Any]:
        """For summary.json and `--json`."""
        seconds = None if self.cpu_seconds is None else round(self.cpu_seconds, 2)
        return {
            "rows": round(self.rows),
            "tokens": round(self.tokens),
            "inferences": round(self.inferences),
            "bytes": round(self.bytes),
            "cpu_seconds": seconds,
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """The lines in the order of the stores, and what they were made from."""

    lines: Sequence[Line]
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """Of the models, by the first store that each computes."""
    weights_bytes: float = 0.0
    """Of the largest model."""
    notes: Sequence[str] = field(default=())
    run_files: Mapping[str, float] = field(default_factory=dict)
    """By name in the workspace, the bytes of the run files."""

    def total(self, amount: str, *, lucene: bool | None = None) -> float | None:
        """The sum of an amount over the stores, of Lucene's alone or of all others."""
        lines = [line for line in self.lines if lucene is None or line.lucene == lucene]
        values = [getattr(line, amount) for line in lines]
        return None if None in values else float(sum(values))

    @property
    def reused(self) -> list[str]:
        """The stores that are there already."""
        return [line.store for line in self.lines if line.reused]

    @property
    def inferences_range(self) -> tuple[int, int]:
        """Inferences at least and at most."""
        return round(self.total("least") or 0.0), round(self.total("most") or 0.0)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "stages": {
                line.store: {**line.to_json(), "shards": line.shards, "reused": line.reused}
                for line in self.lines
            },
            "run_files": {name: round(size) for name, size in self.run_files.items()},
            "totals": totals_of(self),
            "inferences_range": [*self.inferences_range],
            "rates": {name: rate.to_json() for name, rate in self.rates.items()},
            "notes": [*self.notes],
        }


def totals_of(forecast: Forecast) -> dict[str, float | None]:
    """The sums of all amounts; the bytes of Lucene and of the run files apart."""
    found = {name: forecast.total(name) for name in ("tokens", "inferences", "cpu_seconds")}
    found["bytes"] = forecast.total("bytes", lucene=False)
    found["lucene_bytes"] = forecast.total("bytes", lucene=True)
    found["run_bytes"] = sum(forecast.run_files.values())
    return {
        name: None if value is None else round(value, 2 if name == "cpu_seconds" else None)
        for name, value in found.items()
    }


def pending_inputs(expected: Sequence[Expected]) -> list[ModelInputs]:
    """What models will read for the stores that are not there."""
    found = [each.amounts.inputs for each in expected if not each.reused]
    return [inputs for inputs in found if inputs is not None and inputs.number]


def forecast_of(
    expected: Sequence[Expected],
    rates: Mapping[Key, Rate],
    notes: Sequence[str] = (),
    files: Mapping[str, float] = {},
) -> Forecast:
    """The forecast of these stores, with the rates of models by `key_of` their inputs."""
    first: dict[Key, str] = {}
    for each in expected:
        if each.amounts.inputs is not None and not each.reused:
            first.setdefault(key_of(each.amounts.inputs), str(each.name))
    own = [each.amounts.note for each in expected if each.amounts.note and not each.reused]
    weights = [
        (inputs.model.folder / "model.safetensors").stat().st_size
        for inputs in pending_inputs(expected)
    ]
    return Forecast(
        lines=[_line(each, rates) for each in expected],
        rates={name: rates[key] for key, name in first.items() if key in rates},
        weights_bytes=float(max(weights, default=0)),
        notes=[*notes, *dict.fromkeys(own)],
        run_files=files,
    )


def _line(each: Expected, rates: Mapping[Key, Rate]) -> Line:
    amounts, name = each.amounts, str(each.name)
    lucene = each.produces == "lucene"
    if each.reused or each.computed:
        num_bytes = 0.0 if each.reused else each.num_bytes
        shards = each.num_shards
        return Line(name, amounts.rows, shards, each.reused, bytes=num_bytes, lucene=lucene)
    left, inputs = 1.0 - each.held, amounts.inputs
    tokens = flops = 0.0
    seconds: float | None = 0.0
    if inputs is not None and inputs.number and len(inputs.lengths):
        tokens = inputs.num_tokens * left
        flops = float(flops_of(inputs.model, inputs.lengths).mean()) * inputs.number * left
        rate = rates.get(key_of(inputs))
        seconds = None if rate is None else tokens / rate.tokens_per_second
    scores = amounts.inferences if each.produces == "scores" else (0.0, 0.0, 0.0)
    inferences, least, most = (number * left for number in scores)
    return Line(
        name,
        amounts.rows,
        each.num_shards,
        False,
        tokens=tokens,
        inferences=inferences,
        least=least,
        most=most,
        bytes=each.num_bytes * left,
        other_seconds=amounts.seconds * left,
        model_seconds=seconds,
        model_flops=flops,
        lucene=lucene,
    )


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
