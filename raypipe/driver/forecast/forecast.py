"""The forecast of a recipe: what each of its stores will take, by the sample and the probe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.driver.forecast.flops import flops_of
from raypipe.driver.forecast.foreseen import Expected
from raypipe.driver.forecast.probe import Rate, key_of
from raypipe.names import Role
from raypipe.stages.outlook.outlook import ModelInputs

LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Upper ends of the classes of a histogram of lengths, in tokens."""
AMOUNTS = ("rows", "tokens", "inferences", "bytes", "cpu_seconds")


@dataclass(frozen=True, slots=True)
class Line:
    """What one store will take of this invocation; nothing of one that is there."""

    store: str
    rows: float
    shards: int
    reused: bool
    tokens: float = 0.0
    inferences: float = 0.0
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
    histograms: Mapping[str, Mapping[str, int]]
    """By store, the inputs of each class of lengths, `..64` to `..512`."""
    rates: Mapping[str, Rate]
    """Of the models, by the first store that each computes."""
    per_query: Mapping[str, float]
    """By store of scores, the inferences a query."""
    weights_bytes: float
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

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "stages": {
                line.store: {**line.to_json(), "shards": line.shards, "reused": line.reused}
                for line in self.lines
            },
            "run_files": {name: round(size) for name, size in self.run_files.items()},
            "totals": totals_of(self),
            "lengths": {name: dict(found) for name, found in self.histograms.items()},
            "inferences_per_query": {name: round(n, 2) for name, n in self.per_query.items()},
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


def forecast_of(
    expected: Sequence[Expected],
    rates: Mapping[tuple[str, bool], Rate],
    notes: Sequence[str] = (),
    files: Mapping[str, float] = {},
) -> Forecast:
    """The forecast of these stores, with the rates of models by `key_of` their inputs."""
    named: dict[str, Rate] = {}
    for each in expected:
        inputs = each.outlook.inputs
        if inputs is not None and key_of(inputs) in rates and not each.reused:
            named.setdefault(str(each.name), rates[key_of(inputs)])
    pending = [each for each in expected if not each.reused]
    own = [note for each in pending for note in each.outlook.notes]
    weights = [
        (inputs.model.folder / "model.safetensors").stat().st_size
        for each in pending
        if (inputs := each.outlook.inputs) is not None
    ]
    of_scores = [each for each in pending if each.name.role is Role.SCORES]
    return Forecast(
        lines=[_line(each, rates) for each in expected],
        histograms={
            str(each.name): histogram(inputs)
            for each in pending
            if (inputs := each.outlook.inputs) is not None
        },
        rates=named,
        per_query={
            str(each.name): each.outlook.num_inferences / max(1, _queries(each, expected))
            for each in of_scores
        },
        weights_bytes=float(max(weights, default=0)),
        notes=[*notes, *dict.fromkeys(own)],
        run_files=files,
    )


def _line(each: Expected, rates: Mapping[tuple[str, bool], Rate]) -> Line:
    outlook, name = each.outlook, str(each.name)
    lucene = each.produces == "lucene"
    if each.reused or each.computed:
        num_bytes = 0.0 if each.reused else outlook.num_bytes
        shards = each.num_shards
        return Line(name, outlook.num_rows, shards, each.reused, bytes=num_bytes, lucene=lucene)
    left, inputs = 1.0 - each.held, outlook.inputs
    tokens = flops = 0.0
    seconds: float | None = 0.0
    if inputs is not None:
        tokens = inputs.num_tokens * left
        flops = _mean(flops_of(inputs.model, inputs.lengths)) * inputs.number * left
        rate = rates.get(key_of(inputs))
        seconds = None
        if rate is not None:
            seconds = rate.seconds_of(inputs.model, inputs.lengths) * inputs.number * left
        elif not inputs.number:
            seconds = 0.0
    return Line(
        name,
        outlook.num_rows,
        each.num_shards,
        False,
        tokens=tokens,
        inferences=outlook.num_inferences * left,
        bytes=outlook.num_bytes * left,
        other_seconds=outlook.cpu_seconds * left,
        model_seconds=seconds,
        model_flops=flops,
        lucene=lucene,
    )


def histogram(inputs: ModelInputs) -> dict[str, int]:
    """How many of all inputs have at most so many tokens and more than the class before."""
    edges = [0, *LENGTHS]
    counts, _ = np.histogram(np.minimum(inputs.lengths, LENGTHS[-1]), [e + 0.5 for e in edges])
    scale = inputs.number / max(1, len(inputs.lengths))
    found = zip(LENGTHS, counts, strict=True)
    return {f"..{edge}": round(float(count) * scale) for edge, count in found if count}


def _queries(scores: Expected, expected: Sequence[Expected]) -> int:
    """The number of queries of the set that a store of scores belongs to."""
    owner = scores.name.query_set
    rows = [e.outlook.num_rows for e in expected if e.name.role is Role.QUERIES]
    named = [
        e.outlook.num_rows
        for e in expected
        if e.name.role is Role.QUERIES and e.name.owner == owner
    ]
    return (named or rows or [1])[0]


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 0.0
