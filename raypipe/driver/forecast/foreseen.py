"""A recipe's stores before they are computed: those that are there, and what the others will be.

The same code walks the recipe as in a run. What is small and decides everything else, the count of
the collection's records and the query sets, is really computed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from raypipe.driver.forecast.seen import SeenStores
from raypipe.driver.recipe.chain import Chain
from raypipe.errors import InputError
from raypipe.names import Role, StoreName
from raypipe.stages.outlook.outlook import ExpectedRun, Foreseeing, Outlook
from raypipe.stages.stage import Stage
from raypipe.storage.ledger import read_manifest
from raypipe.storage.records import Json, Manifest, Record, Shard, digest
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored, committed
from raypipe.vocabulary import DEPTH

COMPUTED = (Role.COUNT, Role.QUERIES)
QUERIES = 100
"""Whose lists an expected run has, at most."""


class NotForeseen(InputError):
    """An input is bad, which was found in a sample of it; the run would find it too."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One store of a recipe: there already, or with what it will take."""

    name: StoreName
    outlook: Outlook
    num_shards: int
    reused: bool
    held: float = 0.0
    """The share of its rows that an interrupted invocation has committed."""
    computed: bool = False
    """Whether it was computed to make the forecast."""
    produces: str = ""
    """See `StageSpec`."""


@dataclass
class Foreseen:
    """See Stores; nothing is written to `storage`."""

    storage: Storage
    """The stores to look for existing ones in."""
    compute: Callable[[StoreName, Stage], Stored]
    """Computes a small store, in the workspace or aside."""
    seen: SeenStores
    aside: Storage
    """Holds the payloads that are foreseen: a few that later stages read while they are planned."""
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
            shards = len(stored.manifest.records)
            there = Outlook(num_rows=stored.num_rows, num_bytes=stored.num_bytes)  # reads nothing
            self.found[name] = Expected(name, there, shards, True, produces=spec.produces)
        self._stored[name, spec.fingerprint()] = stored
        return stored

    def select(
        self, name: StoreName, stage: Stage, complete: Callable[[bool], tuple[Stage, Chain]]
    ) -> tuple[Stored, Chain]:
        """See Stores."""
        stands = self._known(name, stage.spec.fingerprint()) is not None
        completed, chain = complete(stands)
        return self.ensure(name, completed), chain

    def _known(self, name: StoreName, fingerprint: str) -> Stored | None:
        if (name, fingerprint) in self._stored:
            return self._stored[name, fingerprint]
        manifest = read_manifest(self.storage, str(name), fingerprint)
        return None if manifest is None else Stored(self.storage, manifest)

    def _new(self, name: StoreName, stage: Stage, spec: StageSpec) -> Stored:
        if name.role in COMPUTED:
            stored = self.compute(name, stage)
            number = len(stored.manifest.records)
            there = Outlook(num_rows=stored.num_rows, num_bytes=stored.num_bytes)
            self.found[name] = Expected(name, there, number, False, computed=True)
            return stored
        try:
            outlook = _outlook(stage, self.seen)
        except InputError as error:
            raise NotForeseen(error.problems) from error
        shards = outlook.shards if outlook.shards is not None else stage.shards(self.seen.sizing)
        held = committed(self.storage, str(name), spec)
        planned = sum(shard.num_rows for shard in shards)
        share = held.num_rows / planned if held is not None and planned else 0.0
        self.found[name] = Expected(
            name, outlook, len(shards), False, held=min(1.0, share), produces=spec.produces
        )
        sha256 = digest(outlook.payload)
        storage = self.storage
        if outlook.payload:
            storage, file = self.aside, self.aside.scratch() / "payload"
            file.write_bytes(outlook.payload)
            storage.put(sha256, file)
        records = [_record(shard, planned, outlook, sha256) for shard in shards]
        manifest = Manifest(str(name), spec.fingerprint(), tuple(records), ())
        stored = Stored(storage, manifest)
        self.seen.expected[stored.origin] = outlook
        return stored


def _outlook(stage: Stage, seen: SeenStores) -> Outlook:
    """What the stage says; of one that says nothing, its rows and its own estimate of bytes."""
    if isinstance(stage, Foreseeing):
        return stage.outlook(seen)
    rows = sum(shard.num_rows for shard in stage.shards(seen.sizing))
    note = f"{stage.spec.stage}: its time is not foreseen, and its bytes are an upper bound"
    run = None
    if stage.spec.produces == "run":  # of a full list for each query, as others go on with it
        run = ExpectedRun(np.full(min(rows, QUERIES), float(DEPTH)), rows, DEPTH)
    num_bytes = stage.estimated_bytes(rows, rows)
    return Outlook(num_rows=rows, num_bytes=num_bytes, run=run, notes=(note,))


def _record(shard: Shard, planned: int, outlook: Outlook, sha256: str) -> Record:
    """A shard's record as far as it is foreseen; a whole number is shared out by rows."""
    share = shard.num_rows / planned if planned else 0.0

    def part(value: Json) -> Json:
        number = isinstance(value, int) and not isinstance(value, bool)
        return round(value * share) if number and share else value

    facts = {name: part(value) for name, value in outlook.facts.items()}
    return Record(shard, sha256, round(outlook.num_bytes * share), facts)
