"""The forecast of a recipe: what each of its stores will take, and whether it fits the disk.

The same code walks the recipe as in a run, and each stage says what it expects. What is small and
decides everything else, the count of the collection's records and the query sets, is really
computed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from raypipe.config.recipe import Recipe
from raypipe.driver.devices import Devices
from raypipe.driver.execute import older_stores, size_of
from raypipe.driver.place import sizing_of
from raypipe.driver.recipe.graph import Graph, graph_at
from raypipe.driver.workspace import Workspace
from raypipe.errors import FullError, InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName
from raypipe.stages.stage import Expected, Sizing, Stage
from raypipe.storage.ledger import read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Json, Manifest, Record, digest
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored, committed

if TYPE_CHECKING:
    from raypipe.driver.forecast.rates import Key, Rate
    from raypipe.driver.forecast.samples import Samples
    from raypipe.stages.stage import ModelInputs

COMPUTED = (Role.COUNT, Role.QUERIES)


class BadSample(InputError):
    """An input is bad, which was found in a sample of it; the run would find it too."""


@dataclass(frozen=True, slots=True)
class Line:
    """The cost of one store in this invocation; nothing if it is there."""

    store: str
    rows: float
    shards: int
    reused: bool
    tokens: float = 0.0
    inferences: float = 0.0
    """At most: which scores two requests share is not known before their runs are there."""
    bytes: float = 0.0
    other_seconds: float = 0.0
    """CPU seconds of what no model computes."""
    model_seconds: float | None = 0.0
    """Seconds of a model on its device, on a CPU those of one core; None of an unknown rate."""
    inputs: "ModelInputs | None" = None
    """What a model will read, if it is any."""
    note: str = ""

    @property
    def seconds(self) -> float | None:
        """All of them; None where a model's rate is not known."""
        return None if self.model_seconds is None else self.other_seconds + self.model_seconds

    def to_json(self) -> dict[str, Any]:
        """The line as `--json` prints it."""
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
    rates: "Mapping[str, Rate]" = field(default_factory=dict)
    """Of the models, by the first store that each computes."""
    notes: Sequence[str] = field(default=())

    def total(self, amount: str) -> float | None:
        """The sum of an amount over the stores; None where one is not known."""
        values = [getattr(line, amount) for line in self.lines]
        return None if None in values else float(sum(values))

    @property
    def totals(self) -> dict[str, float | None]:
        """The sums of all amounts."""
        totals = {name: self.total(name) for name in ("tokens", "inferences", "bytes", "seconds")}
        return {
            name: None if value is None else round(value, 2 if name == "seconds" else None)
            for name, value in totals.items()
        }

    @property
    def reused(self) -> list[str]:
        """The stores that are there already."""
        return [line.store for line in self.lines if line.reused]

    @property
    def inputs(self) -> "list[ModelInputs]":
        """The inputs that models will read."""
        return [line.inputs for line in self.lines if line.inputs is not None]

    def with_rates(self, rates: "Mapping[Key, Rate]", notes: Sequence[str] = ()) -> "Forecast":
        """With the seconds of models whose rates are given by `key_of`, and with more notes."""
        from raypipe.driver.forecast.rates import Key, key_of

        lines, first = [], dict[Key, str]()
        for line in self.lines:
            key = None if line.inputs is None else key_of(line.inputs)
            if key is not None and key in rates:
                first.setdefault(key, line.store)
                seconds = line.tokens / rates[key].tokens_per_second
                line = replace(line, model_seconds=seconds)
            lines.append(line)
        by_store = {store: rates[key] for key, store in first.items()}
        return Forecast(lines, by_store, [*notes, *self.notes])

    def hours(self, workers: int, cores: int) -> float | None:
        """Hours of the clock, from the first store to the last; None where a rate is not known.

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
        """The forecast as `--json` prints it."""
        return {
            "stages": {line.store: line.to_json() for line in self.lines},
            "totals": self.totals,
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


@dataclass
class Walk:
    """Stores as they will be (a `Stores`); nothing is written to `storage`."""

    storage: Storage
    """The stores to look for existing ones in."""
    compute: Callable[[StoreName, Stage], Stored]
    """Computes a small store, in the workspace or aside."""
    sizing: Sizing
    aside: Storage
    """Holds the payloads that are made up: a few that later stages read while they are planned."""
    stages: dict[str, list[Stage]] = field(default_factory=dict)
    """By the reuse key of their spec: later ones may take their rows."""
    lines: dict[StoreName, Line] = field(default_factory=dict)
    _stored: dict[tuple[StoreName, str], Stored] = field(default_factory=dict)

    @cached_property
    def expectations(self) -> "Samples":
        """Samples, by which stages are estimated whose stores are not there; a rerun has none."""
        from raypipe.driver.forecast.samples import Samples

        return Samples(self.sizing, self.stages)

    def fixed(self, name: StoreName) -> Stored | None:
        """None, since a forecast reads no generation."""
        return None

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """The store of this specification; one that is expected counts as complete."""
        key = (name, spec.fingerprint())
        if key in self._stored:
            return self._stored[key]
        manifest = read_manifest(self.storage, str(name), key[1])
        return None if manifest is None else Stored(self.storage, manifest)

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """The existing store, or what it is expected to be; see Stores."""
        spec = stage.spec
        stored = self.find(name, spec)
        if stored is None and name.role in COMPUTED:
            stored = self.compute(name, stage)
            self.lines[name] = replace(_line(name, stored), bytes=float(stored.num_bytes))
        elif stored is None:
            stored = self._expected(name, stage, spec)
        elif name not in self.lines:
            self.lines[name] = replace(_line(name, stored), reused=True)
        self.stages.setdefault(spec.reuse_key, []).append(stage)
        self._stored[name, spec.fingerprint()] = stored
        return stored

    def _expected(self, name: StoreName, stage: Stage, spec: StageSpec) -> Stored:
        if spec.reuse_key:
            stage = stage.reusing(older_stores(self.storage, None, None, name, spec))
        try:
            expected = stage.expected(self.expectations)
        except InputError as error:
            raise BadSample(error.problems) from error
        sha256, storage = digest(expected.payload), self.storage
        if expected.payload:
            storage, file = self.aside, self.aside.scratch() / "payload"
            file.write_bytes(expected.payload)
            storage.put(sha256, file)
        records = _records(expected, sha256)
        stored = Stored(storage, Manifest(str(name), spec.fingerprint(), tuple(records), ()))
        self.expectations.add(stored, expected)
        before = committed(self.storage, str(name), spec)
        share = before.num_rows / max(1, expected.num_rows) if before is not None else 0.0
        self.lines[name] = _rest(_line(name, stored), expected, 1.0 - min(1.0, share))
        return stored


def _line(name: StoreName, stored: Stored) -> Line:
    return Line(str(name), stored.num_rows, len(stored.manifest.records), False)


def _rest(line: Line, expected: Expected, left: float) -> Line:
    """The cost of the rest of a store, if an interrupted invocation has committed a part."""
    inputs = expected.inputs
    if inputs is not None:
        inputs = replace(inputs, number=inputs.number * left) if inputs.number else None
    return replace(
        line,
        tokens=0.0 if inputs is None else inputs.num_tokens,
        inferences=inputs.number if inputs is not None and inputs.side == "pair" else 0.0,
        bytes=expected.num_bytes * left,
        other_seconds=expected.seconds * left,
        model_seconds=0.0 if inputs is None else None,
        inputs=inputs,
        note=expected.note,
    )


def _records(expected: Expected, sha256: str) -> list[Record]:
    """The shards' records as far as they are known; a whole number is shared out by rows."""
    ends = [0.0, *np.cumsum([shard.num_rows for shard in expected.shards]).tolist()]
    if not ends[-1]:  # a single empty shard
        return [Record(shard, sha256, 0, expected.facts) for shard in expected.shards]

    def part(value: Json, first: float, last: float) -> Json:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return round(value * last / ends[-1]) - round(value * first / ends[-1]) if whole else value

    return [
        Record(
            shard,
            sha256,
            part(round(expected.num_bytes), *span),
            {name: part(value, *span) for name, value in expected.facts.items()},
        )
        for shard, span in zip(expected.shards, pairwise(ends), strict=True)
    ]


def make_forecast(
    recipe: Recipe,
    selected: Sequence[str],
    chosen: Devices,
    sources: Mapping[str, str],
    models: Mapping[str, ModelFolder],
    *,
    storage: Storage,
    compute: Callable[[StoreName, Stage], Stored],
) -> Forecast:
    """Every store that the selected stages need, in order; without any model's rate.

    Args:
        recipe: with files in the place of what is built in.
        selected: names of stages.
        chosen: the devices of the run.
        sources: see Graph.
        models: the recipe's models, opened.
        storage: where existing stores are looked for; nothing is written there.
        compute: computes the small stores that decide the others.

    Raises:
        InputError: a model or file does not fit a stage.
    """
    sizing = sizing_of(recipe.resources, chosen)
    with TemporaryDirectory(prefix="raypipe-forecast-") as folder:
        walk = Walk(storage, compute, sizing, PosixStorage(Path(folder)))
        graph_at(recipe, walk, chosen, sources, models).systems(selected)
    notes = dict.fromkeys(line.note for line in walk.lines.values() if line.note)
    return Forecast([*walk.lines.values()], notes=[*notes])


def run_forecast(
    graph: Graph,
    selected: Sequence[str],
    chosen: Devices,
    *,
    workspace: Workspace,
    compute: Callable[[StoreName, Stage], Stored],
) -> Forecast | None:
    """The forecast of a run; None where an input is bad.

    Only the count of the records and the query sets are computed for it, as the run would first;
    see `make_forecast` for the arguments.
    """
    try:
        forecast = make_forecast(
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
    if not forecast.inputs:
        return forecast
    from raypipe.driver.forecast.rates import logged_rates

    return forecast.with_rates(logged_rates(forecast.inputs, workspace, chosen))


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
