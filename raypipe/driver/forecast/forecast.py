"""The forecast of a recipe: what each of its stores will take, and whether it fits the disk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raypipe.driver.devices import Devices
from raypipe.driver.execute import size_of
from raypipe.driver.forecast.amounts import ModelInputs
from raypipe.driver.forecast.rates import Key, Rate, key_of, logged_rates
from raypipe.driver.forecast.walk import BadSample, Expected, expected_stores
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.workspace import Workspace
from raypipe.errors import FullError
from raypipe.names import StoreName
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
    """Seconds of a model on its device, on a CPU those of one core; None of an unknown rate."""

    @property
    def seconds(self) -> float | None:
        """All of them; None where a model's rate is not known."""
        return None if self.model_seconds is None else self.other_seconds + self.model_seconds

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "rows": round(self.rows),
            "tokens": round(self.tokens),
            "inferences": round(self.inferences),
            "bytes": round(self.bytes),
            "seconds": None if self.seconds is None else round(self.seconds, 2),
            "shards": self.shards,
            "reused": self.reused,
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """The lines in the order of the stores, and what they were made from."""

    lines: Sequence[Line]
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """Of the models, by the first store that each computes."""
    notes: Sequence[str] = field(default=())

    def total(self, amount: str) -> float | None:
        """The sum of an amount over the stores; None where one is not known."""
        values = [getattr(line, amount) for line in self.lines]
        return None if None in values else float(sum(values))

    @property
    def totals(self) -> dict[str, float | None]:
        """The sums of all amounts."""
        found = {name: self.total(name) for name in ("tokens", "inferences", "bytes", "seconds")}
        return {
            name: None if value is None else round(value, 2 if name == "seconds" else None)
            for name, value in found.items()
        }

    @property
    def reused(self) -> list[str]:
        """The stores that are there already."""
        return [line.store for line in self.lines if line.reused]

    @property
    def inferences_range(self) -> tuple[int, int]:
        """Inferences at least and at most."""
        return round(self.total("least") or 0.0), round(self.total("most") or 0.0)

    def hours(self, workers: int, cores: int) -> float | None:
        """Of the clock, from the first store to the last; None where a rate is not known.

        A store's work is shared by as many workers, or cores for what no model computes, as it has
        shards. Start-up and evaluation are not in it.
        """
        seconds = 0.0
        for line in self.lines:
            if line.model_seconds is None:
                return None
            shards = max(1, line.shards)
            seconds += line.model_seconds / min(workers, shards)
            seconds += line.other_seconds / min(cores, shards)
        return seconds / 3600

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "stages": {line.store: line.to_json() for line in self.lines},
            "totals": self.totals,
            "inferences_range": [*self.inferences_range],
            "rates": {name: rate.to_json() for name, rate in self.rates.items()},
            "notes": [*self.notes],
        }

    def __str__(self) -> str:
        """`forecast: 1,234,000 tokens, 6,460 inferences, 12.3 MB of stores, 95 seconds of work; 3
        stores of 20 are there`."""
        totals = {name: value or 0.0 for name, value in self.totals.items()}
        parts = [f"{totals['tokens']:,.0f} tokens"]
        parts += [f"{totals['inferences']:,.0f} inferences"] if totals["inferences"] else []
        parts.append(f"{totals['bytes'] / 1e6:,.1f} MB of stores")
        seconds = self.total("seconds")
        parts += [] if seconds is None else [f"{seconds:,.0f} seconds of work"]
        there = f"{len(self.reused)} stores of {len(self.lines)} are there"
        return f"forecast: {', '.join(parts)}; {there}"


def pending_inputs(expected: Sequence[Expected]) -> list[ModelInputs]:
    """What models will read for the stores that are not there."""
    found = [each.amounts.inputs for each in expected if not each.reused]
    return [inputs for inputs in found if inputs is not None and inputs.number]


def forecast_of(
    expected: Sequence[Expected],
    rates: Mapping[Key, Rate],
    notes: Sequence[str] = (),
) -> Forecast:
    """The forecast of these stores, with the rates of models by `key_of` their inputs."""
    first: dict[Key, str] = {}
    for each in expected:
        if each.amounts.inputs is not None and not each.reused:
            first.setdefault(key_of(each.amounts.inputs), str(each.name))
    own = [each.amounts.note for each in expected if each.amounts.note and not each.reused]
    return Forecast(
        lines=[_line(each, rates) for each in expected],
        rates={name: rates[key] for key, name in first.items() if key in rates},
        notes=[*notes, *dict.fromkeys(own)],
    )


def _line(each: Expected, rates: Mapping[Key, Rate]) -> Line:
    amounts, name = each.amounts, str(each.name)
    if each.reused or each.computed:
        num_bytes = 0.0 if each.reused else each.num_bytes
        return Line(name, amounts.rows, each.num_shards, each.reused, bytes=num_bytes)
    left, inputs = 1.0 - each.committed, amounts.inputs
    tokens, seconds = 0.0, 0.0 if inputs is None or not inputs.number else None
    if inputs is not None and inputs.number and len(inputs.lengths):
        tokens, rate = inputs.num_tokens * left, rates.get(key_of(inputs))
        seconds = None if rate is None else tokens / rate.tokens_per_second
    inferences, least, most = (number * left for number in amounts.inferences)
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
    )


def run_forecast(
    graph: Graph,
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
    try:
        expected = expected_stores(
            graph.recipe,
            selected,
            chosen,
            graph.sources,
            graph.models,
            storage=workspace.stores,
            compute=compute,
        )
    except BadSample:  # the run meets the same input, and its error names store and shard too
        return None
    inputs = pending_inputs(expected)
    return forecast_of(expected, logged_rates(inputs, workspace, chosen))


BLOCK_BYTES = 4096
STORE_BLOCKS, SHARD_BLOCKS, WORKSPACE_BLOCKS = 8, 3, 32
"""What a store's folders and records take, those of a shard, and the workspace's own files: each
file and folder fills blocks of the disk."""


def check_forecast(forecast: Forecast, workspace: Workspace) -> None:
    """Returns nothing if the stores of a forecast fit the free space.

    A store that replaces an older one may copy rows whose bytes are there: it is left to
    `check_space`.

    Raises:
        FullError: they do not fit; the message gives the place, the needed and the free bytes.
    """
    stores, older = workspace.stores, workspace.refs()
    anew = [line for line in forecast.lines if line.store not in older and not line.reused]
    blocks = sum(STORE_BLOCKS + SHARD_BLOCKS * line.shards for line in anew)
    needed = sum(line.bytes for line in anew)
    needed += BLOCK_BYTES * (blocks + WORKSPACE_BLOCKS if anew else 0)
    free = stores.free_bytes()
    if free is not None and needed > free:
        raise FullError(
            f"expected {size_of(needed)} free for the stores in {stores.uri}, found "
            f"{size_of(free)}. No stage has begun: free space there, or name another --out, or "
            "another place with the recipe key `stores`"
        )
