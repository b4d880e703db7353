"""A recipe's stores made by a plain loop, without leases or workspaces; and stub models."""

import hashlib

import numpy as np

from raypipe import schema
from raypipe.driver.recipe.graph import Graph
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.ledger import Ledger, find_spec, read_manifest
from raypipe.storage.store import Stored

SMALL = Sizing(shard_tokens=30, shard_rows=4, shard_queries=2)


class PlainStores:
    """See Stores: each store is computed here; rows are copied from the stores of `older`."""

    def __init__(self, storage, older=(), sizing=SMALL, sizing_of=None):
        self.storage, self.older, self.sizing = storage, older, sizing
        self.sizing_of = sizing_of or {}
        self.made = {}
        self.copied = {}

    def fixed(self, name):
        return None

    def ensure(self, name, stage):
        store, spec = str(name), stage.spec
        manifest = read_manifest(self.storage, store, spec.fingerprint())
        if manifest is None:
            manifest = self._computed(store, self._copying(stage, spec), spec)
        self.made[store] = Stored(self.storage, manifest)
        return self.made[store]

    def find(self, name, spec):
        manifest = read_manifest(self.storage, str(name), spec.fingerprint())
        return None if manifest is None else Stored(self.storage, manifest)

    def select(self, name, stage, complete):
        stands = read_manifest(self.storage, str(name), stage.spec.fingerprint()) is not None
        completed, chain = complete(stands)
        return self.ensure(name, completed), chain

    def _copying(self, stage, spec):
        if not spec.reuse_key:
            return stage
        held = [stored for stores in self.older for stored in stores.values()]
        return stage.reusing(
            [stored for stored in held if spec_of(stored).reuse_key == spec.reuse_key]
        )

    def _computed(self, store, stage, spec):
        planned = stage.shards(self.sizing_of.get(store, self.sizing))
        ledger = Ledger(self.storage, store, spec, planned)
        opened = stage.open(Site(self.storage.scratch()))
        self.copied[store] = 0
        for shard in ledger.pending():
            payload = opened.run(shard, (), lambda rows: None)
            ledger.commit(shard, payload.path, payload.facts)
            self.copied[store] += payload.num_copied
        return ledger.publish()


def built(recipe, storage, older=(), sizing=SMALL, sizing_of=None):
    """The stores of a recipe by name, and how many rows of each were copied.

    `sizing_of` has the sizing of single stores by their names.
    """
    stores = PlainStores(storage, older, sizing, sizing_of)
    graph = Graph(recipe, stores)
    for query_set in recipe.queries:
        for name in recipe.stages:
            graph.system(name, query_set)
    return stores.made, stores.copied


def spec_of(stored):
    return find_spec(stored.storage, stored.manifest.store, stored.manifest.fingerprint)


def rows_of(stored):
    """The rows of a store, whatever its shards are; None for files of another kind."""
    spec = spec_of(stored)
    if spec.produces == "tokens":
        flat, offsets = stored.tokens(0, stored.num_rows)
        return [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]
    if spec.produces == "vectors":
        return np.concatenate([stored.vectors(r) for r in stored.manifest.records]).tobytes()
    columns = {
        "passages": schema.PASSAGES,
        "scores": schema.SCORES,
        "pairs": schema.SCORES,
        "run": schema.RUN,
    }
    if spec.produces not in columns:
        return None
    return stored.whole_table(columns[spec.produces]).to_pylist()


class StubEncoder:
    """A vector is eight numbers from a hash of the pieces."""

    numerics, engine = "stub", None

    def __init__(self, seen=None):
        self.seen = [] if seen is None else seen

    def encode(self, flat, offsets, *, side, budget_tokens, beat):
        texts = [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]
        self.seen += texts
        beat(range(len(texts)))
        numbers = [number([side, text]) for text in texts]
        return np.array(numbers, np.float32).reshape(-1, 8)

    def num_tokens(self, offsets, side):
        return int(offsets[-1] - offsets[0])


class StubScorer:
    """A score is a number from a hash of the pieces of the query and the passages."""

    numerics, engine = "stub", None

    def __init__(self, model):
        self.conventions, self.seen = model.conventions, []

    def score(self, queries, passages, *, budget_tokens, beat):
        sides = [pieces_of(side) for side in (queries, *passages)]
        texts = [list(of_one) for of_one in zip(*sides, strict=True)]
        self.seen += texts
        beat(range(len(texts)))
        return np.array([number(text)[0] for text in texts], np.float32)

    def num_tokens(self, query, passages):
        return int(sum(side.counts.sum() for side in (query, *passages)))


def pieces_of(side):
    ends = side.starts + side.counts
    return [side.flat[a:b].tolist() for a, b in zip(side.starts, ends, strict=True)]


def number(value):
    """Eight numbers between 0 and 1 that depend on the value alone."""
    digest = hashlib.sha256(repr(value).encode()).digest()
    return np.frombuffer(digest[:16], "<u2") / 65536
