"""Mutants of a store's and a workspace's records are refused in words, or mean what they say.

Without a new seal every changed byte is found. With one, as another program might write it, a
record of another structure is still refused or read exactly.
"""

import json
from functools import partial

import pytest
from fuzzing import fuzz, many, read_or_refused
from hypothesis import strategies as st
from mutants_of import BEYOND_JSON, as_json, mutants_of, structures_of

from raypipe.driver.workspace import Workspace, read_refs
from raypipe.storage.generations import (
    Generation,
    create_generation,
    held_stores,
    newest_generation,
    read_generation,
)
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import Ledger, read_manifest, read_spec
from raypipe.storage.records import FORMAT, Shard, seal, unseal
from raypipe.storage.root import check_root, mark_root, root_damage
from raypipe.storage.spec import StageSpec

SPEC = StageSpec("made", 1, {"depth": 10, "nested": {"a": [1, None]}}, {"x": "ab" * 16}, "run")
STORE, PLACE = "made", SPEC.fingerprint()
SHARDS = (Shard(0, 0, 2), Shard(1, 2, 3, 0, 0))


@pytest.fixture
def root(tmp_path):
    """A root with one complete store, a generation, refs, a lease and a workspace beside it."""
    workspace = Workspace(tmp_path / "out", str(tmp_path / "stores"))
    stores = workspace.stores
    mark_root(stores)
    ledger = Ledger(stores, STORE, SPEC, SHARDS)
    for shard in SHARDS:
        payload = tmp_path / f"{shard.index}"
        payload.write_bytes(b"rows" * (1 + shard.index))
        ledger.commit(shard, payload, {"numerics": "one", "skipped_rows": []})
    ledger.note({"event": "published", "seconds": 1.5})
    ledger.publish()
    workspace.refer(STORE, PLACE)
    facts = {"measures": {"nDCG@10": 0.5}, "rows": 3}
    assert create_generation(stores, Generation("docs", 1, {STORE: PLACE}, facts))
    acquire(stores, "locks/made").release()
    return workspace


def manifest(root):
    found = read_manifest(root.stores, STORE, PLACE)
    return json.loads(found.to_bytes())["body"]


def plan(root):
    ledger = Ledger(root.stores, STORE, SPEC)
    ledger.pending()
    mine = {"format": FORMAT, "store": STORE, "fingerprint": PLACE}
    return {**mine, "shards": [shard.to_json() for shard in ledger.shards]}


def shard_record(root):
    ledger = Ledger(root.stores, STORE, SPEC)
    mine = {"format": FORMAT, "store": STORE, "fingerprint": PLACE}
    return {**mine, **ledger.record(SHARDS[0]).to_json()}


def spec(root):
    return read_spec(root.stores, STORE, PLACE).to_json()


def generation(root):
    found = newest_generation(root.stores, "docs")
    assert found == read_generation(root.stores, "docs", 1)
    found.stored(root.stores, STORE)
    assert held_stores(root.stores) == {(name, place) for name, place in found.stores.items()}
    body = {"format": FORMAT, "name": found.name, "number": found.number}
    return {**body, "stores": dict(found.stores), "facts": dict(found.facts)}


def refs(root):
    found = read_refs(root.stores, root.id)
    assert all("/" in place for place in found.places())
    found.older(STORE, PLACE)
    names = {"stores": found.stores, "sources": found.sources}
    return {"format": FORMAT, **names, "place": found.place, "beside": sorted(found.beside)}


def identity(root):
    return {"format": FORMAT, "id": Workspace(root.folder, str(root.stores.uri)).id}


def root_format(root):
    check_root(root.stores)
    return None if root_damage(root.stores) else {"format": FORMAT}


READERS = {
    "manifest": (f"{STORE}/{PLACE}/manifest.json", manifest),
    "plan": (f"{STORE}/{PLACE}/plan.json", plan),
    "shard record": (f"{STORE}/{PLACE}/shards/00000.json", shard_record),
    "spec": (f"{STORE}/{PLACE}/spec.json", spec),
    "generation": ("generations/docs/0000001.json", generation),
    "refs": ("refs/{id}.json", refs),
    "root": ("format.json", root_format),
    "workspace": ("workspace.json", identity),
}
readers = pytest.mark.parametrize("kind", READERS)


def file_of(root, kind):
    name = READERS[kind][0].format(id=root.id)
    return (root.folder if kind == "workspace" else root.folder.parent / "stores") / name


def within(found, written):
    """Whether all that was found was written so; fields that no reader knows may be left out."""
    if isinstance(found, dict):
        return all(name in written and within(found[name], written[name]) for name in found)
    if isinstance(found, list):
        return len(found) == len(written) and all(map(within, found, written))
    return type(found) is type(written) and found == written


@many
@readers
def test_a_record_with_any_changed_byte_is_refused(kind, num_mutants, root):
    path, read = file_of(root, kind), READERS[kind][1]
    whole = path.read_bytes()
    body = unseal(str(path), whole)

    def check(data):
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: read(root))
        assert (data == whole) == (found == body)
        return found is not None

    known = [b"[" * 100_000, b'{"body":' * 5_000, b'{"body": 1' + b"0" * 5_000 + b"}"]
    fuzz(st.just(whole) | mutants_of(whole), check, num_mutants, known=known)


@many
@readers
def test_a_sealed_record_of_another_structure_is_refused_or_read_exactly(kind, num_mutants, root):
    path, read = file_of(root, kind), READERS[kind][1]
    body = unseal(str(path), path.read_bytes())

    def check(changed):
        try:
            data = seal(changed)
        except (ValueError, RecursionError):
            data = as_json({"body": changed, "sha256": "0" * 64}) or b"[" * 100_000
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: read(root))
        assert found is None or within(found, changed)
        return found is not None

    # An object with more fields than are known is read, unless its fingerprint is its name.
    more = body if kind == "spec" else {**body, "more": 1}
    known = [{"format": FORMAT}, {}, *({**body, name: 5} for name in body)]
    known += [{**body, name: {"\ud800": [], "a/../b": "\0"}} for name in body]
    fuzz(structures_of(body, more, beyond=BEYOND_JSON), check, num_mutants, known=known)


@pytest.mark.parametrize("wrong", [{"number": 2}, {"name": "other"}])
def test_a_generation_under_anothers_name_or_number_is_refused(wrong, root):
    path = file_of(root, "generation")
    body = unseal(str(path), path.read_bytes())
    path.unlink()
    path.write_bytes(seal({**body, **wrong}))
    _, refused = read_or_refused(lambda: newest_generation(root.stores, "docs"))
    assert "expected generation 1 of docs" in refused


@pytest.mark.parametrize("numbers", [[0, 2, 0, 0, 0], [0, 0, 2, 3, 1], [0, 0, 2], [0, 0, -2, 0, 0]])
def test_a_shard_that_ends_before_it_starts_is_refused_wherever_it_is_named(numbers, root):
    for kind in ("plan", "manifest", "shard record"):
        path, whole = file_of(root, kind), file_of(root, kind).read_bytes()
        text = json.dumps(unseal(str(path), whole)).replace("[0, 0, 2, 0, 0]", json.dumps(numbers))
        path.unlink()
        path.write_bytes(seal(json.loads(text)))
        _, refused = read_or_refused(partial(READERS[kind][1], root))
        assert refused is not None and "another program" in refused
        path.write_bytes(whole)
