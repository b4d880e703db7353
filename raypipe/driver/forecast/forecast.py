"""The forecast of a recipe: what each of its stores will take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raypipe.driver.forecast.amounts import ModelInputs
from raypipe.driver.forecast.flops import flops_of
from raypipe.driver.forecast.rates import Key, Rate, key_of
from raypipe.driver.forecast.walk import Expected


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
