"""The older run that a run is compared with: that of its name, or else of the same settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.stages.run_tables import with_ids
from raypipe.storage.generations import Generation
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.records import canonical, digest
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored


@dataclass(frozen=True, slots=True)
class Counterpart:
    """An older run, and the queries that both generations have, by id and text."""

    run: "_Run"
    queries: frozenset[str]

    def lines(self) -> pa.Table:
        """The older run's lines of these queries (schema.RUN_FILE)."""
        return of_queries(self.run.stored, self.run.queries, self.run.collection, self.queries)


def of_queries(run: Stored, queries: Stored, ranked: Stored, kept: frozenset[str]) -> pa.Table:
    """The lines of these queries of a run, by original ids (schema.RUN_FILE)."""
    lines = with_ids(run.whole_table(schema.RUN), queries.table(schema.QUERIES), ranked)
    return lines.filter(pc.is_in(lines["query_id"], pa.array(sorted(kept), pa.string())))


@dataclass(frozen=True, slots=True)
class _Run:
    stored: Stored
    queries: Stored
    collection: Stored
    """What its rows are: passages, or documents."""


def counterpart(storage: Storage, base: Generation, run: Stored, queries: Stored) -> Counterpart:
    """The base's run of the same store's name; otherwise the one of equal settings.

    Raises:
        LookupError: there is none; its message says why.
    """
    texts, name = _texts(queries), run.manifest.store
    why = f"it names no run {name}, and no other run of the same settings"

    def common(found: _Run | str) -> Counterpart | str:
        if isinstance(found, str):
            return found
        shared = frozenset(query for query, _ in texts.items() & _texts(found.queries).items())
        return Counterpart(found, shared) if shared else "no query of it has the same id and text"

    if name in base.stores:
        same = common(_run(storage, base, name))
        if isinstance(same, Counterpart):
            return same
        why = same
    shape = _shapes(storage)
    others = [
        found
        for store, fingerprint in base.stores.items()
        if store != name and shape(f"{store}/{fingerprint}") == shape(run.origin)
        if isinstance(found := common(_run(storage, base, store)), Counterpart)
    ]
    most = max((len(other.queries) for other in others), default=0)
    best = [other for other in others if len(other.queries) == most]
    if len(best) > 1:  # a query set was renamed, and the stages kept their names
        stage = name.partition(".")[0]
        best = [o for o in best if o.run.stored.manifest.store.partition(".")[0] == stage] or best
    if len(best) == 1:
        return best[0]
    raise LookupError(f"{len(best)} of its runs have the same settings" if best else why)


def _run(storage: Storage, base: Generation, store: str) -> _Run | str:
    """A run of the base with what its rows mean; in place of one that is gone, what is missing."""
    spec = find_spec(storage, store, base.stores[store])
    if spec is not None and spec.produces != "run":
        return f"its {store} is no run"
    origins = () if spec is None else (spec.origins["queries"], spec.origins["collection"])
    found = []
    for place in (f"{store}/{base.stores[store]}", *origins):
        manifest = read_manifest(storage, *place.split("/"))
        if manifest is None:
            return f"its store {place.partition('/')[0]} was deleted"
        found.append(Stored(storage, manifest))
    return _Run(*found) if origins else f"the spec.json of its store {store} was deleted"


def _texts(queries: Stored) -> Mapping[str, str]:
    table = queries.table(schema.QUERIES)
    return dict(zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True))


def _shapes(storage: Storage) -> Callable[[str], str]:
    """A function from a store's place to a digest of all settings that it depends on.

    Neither a stage's name nor any content is part of it.
    """

    @cache
    def shape(place: str) -> str:
        spec = find_spec(storage, *place.split("/"))
        if spec is None:
            return place  # like no other
        runs = {f"run.{name}": f"run {n}" for n, name in enumerate(spec.params.get("order", ()))}
        params = {key: v for key, v in spec.params.items() if key not in ("name", "order")}
        if isinstance(params.get("scores"), dict):  # a spec of its own, over the same texts
            params["scores"] = {**params["scores"], "inputs": None}
        inputs = {runs.get(name, name): shape(origin) for name, origin in spec.origins.items()}
        return digest(canonical([spec.stage, spec.semantics, params, inputs]))

    return shape
