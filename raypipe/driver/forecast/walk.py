"""Walks a recipe before it runs: which stores are there, and what the others will take.

The same code walks the recipe as in a run. What is small and decides everything else, the count of
the collection's records and the query sets, is really computed.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from raypipe.config import Recipe
from raypipe.driver.devices import Devices
from raypipe.driver.execute import older_stores
from raypipe.driver.forecast.amounts import Amounts
from raypipe.driver.forecast.arithmetic import Arithmetic
from raypipe.driver.place import sizing_of
from raypipe.driver.recipe.graph import graph_at
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName
from raypipe.stages.scoring.score import ScoreStage
from raypipe.stages.stage import Stage
from raypipe.storage.ledger import read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Json, Manifest, Record, Shard, digest
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored, committed

COMPUTED = (Role.COUNT, Role.QUERIES)


class BadSample(InputError):
    """An input is bad, which was found in a sample of it; the run would find it too."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One store of a recipe: there already, or with what it will take."""

    name: StoreName
    amounts: Amounts
    num_bytes: float
    num_shards: int
    reused: bool
    committed: float = 0.0
    """The share of its rows that an interrupted invocation has committed."""
    computed: bool = False
    """Whether it was computed to make the forecast."""


@dataclass
class Walk:
    """See Stores; nothing is written to `storage`."""

    storage: Storage
    """The stores to look for existing ones in."""
    compute: Callable[[StoreName, Stage], Stored]
    """Computes a small store, in the workspace or aside."""
    arithmetic: Arithmetic
    aside: Storage
    """Holds the payloads that are made up: a few that later stages read while they are planned."""
    found: dict[StoreName, Expected] = field(default_factory=dict)
    _stored: dict[tuple[StoreName, str], Stored] = field(default_factory=dict)

    def fixed(self, name: StoreName) -> Stored | None:
        """See Stores; no generation is read."""
        return None

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """See Stores; a store that is expected counts as complete."""
        return self._known(name, spec.fingerprint())

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """The existing store, or what it is expected to be; see Stores."""
        spec = stage.spec
        stored = self._known(name, spec.fingerprint())
        if stored is None:
            stored = self._new(name, stage, spec)
        elif name not in self.found:
            self.found[name] = _known(name, stored, reused=True)
            if isinstance(stage, ScoreStage):
                self.arithmetic.remember(stage.base, stage)
        self._stored[name, spec.fingerprint()] = stored
        return stored

    def _known(self, name: StoreName, fingerprint: str) -> Stored | None:
        if (name, fingerprint) in self._stored:
            return self._stored[name, fingerprint]
        manifest = read_manifest(self.storage, str(name), fingerprint)
        return None if manifest is None else Stored(self.storage, manifest)

    def _new(self, name: StoreName, stage: Stage, spec: StageSpec) -> Stored:
        if name.role in COMPUTED:
            stored = self.compute(name, stage)
            self.found[name] = _known(name, stored, computed=True)
            return stored
        if isinstance(stage, ScoreStage):
            older = older_stores(self.storage, None, None, name, spec)
            self.arithmetic.remember(stage.base, *older)
        try:
            amounts = self.arithmetic.amounts(stage)
        except InputError as error:
            raise BadSample(error.problems) from error
        shards = (
            amounts.shards if amounts.shards is not None else stage.shards(self.arithmetic.sizing)
        )
        held = committed(self.storage, str(name), spec)
        planned = sum(shard.num_rows for shard in shards)
        share = held.num_rows / planned if held is not None and planned else 0.0
        num_bytes = amounts.num_bytes
        if num_bytes is None:
            num_bytes = float(stage.estimated_bytes(amounts.rows, amounts.rows))
        self.found[name] = Expected(name, amounts, num_bytes, len(shards), False, min(1.0, share))
        sha256 = digest(amounts.payload)
        storage = self.storage
        if amounts.payload:
            storage, file = self.aside, self.aside.scratch() / "payload"
            file.write_bytes(amounts.payload)
            storage.put(sha256, file)
        records = [_record(shard, planned, amounts, num_bytes, sha256) for shard in shards]
        manifest = Manifest(str(name), spec.fingerprint(), tuple(records), ())
        stored = Stored(storage, manifest)
        if amounts.lines is not None:
            amounts = replace(amounts, made_of=amounts.made_of | {stored.identity})
        self.arithmetic.expected[stored.origin] = amounts
        return stored


def _known(
    name: StoreName, stored: Stored, *, reused: bool = False, computed: bool = False
) -> Expected:
    """A store that is there; nothing of it is read."""
    there, shards = Amounts(rows=stored.num_rows), len(stored.manifest.records)
    num_bytes = float(stored.num_bytes)
    return Expected(name, there, num_bytes, shards, reused, computed=computed)


def _record(shard: Shard, planned: int, amounts: Amounts, num_bytes: float, sha256: str) -> Record:
    """A shard's record as far as it is known; a whole number is shared out by rows."""
    share = shard.num_rows / planned if planned else 0.0

    def part(value: Json) -> Json:
        number = isinstance(value, int) and not isinstance(value, bool)
        return round(value * share) if number and share else value

    facts = {name: part(value) for name, value in amounts.facts.items()}
    return Record(shard, sha256, round(num_bytes * share), facts)


def expected_stores(
    recipe: Recipe,
    selected: Sequence[str],
    chosen: Devices,
    sources: Mapping[str, str],
    models: Mapping[str, ModelFolder],
    *,
    storage: Storage,
    compute: Callable[[StoreName, Stage], Stored],
) -> list[Expected]:
    """Every store that the selected stages need, in order: those there, and what others take.

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
    arithmetic = Arithmetic(sizing_of(recipe.resources, chosen))
    with tempfile.TemporaryDirectory(prefix="raypipe-forecast-") as folder:
        stores = Walk(storage, compute, arithmetic, PosixStorage(Path(folder)))
        graph_at(recipe, stores, chosen, sources, models).systems(selected)
    return [*stores.found.values()]
