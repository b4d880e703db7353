"""Damage to one store of two shards, complete or not."""

import pytest

from raypipe.driver.upkeep.verify import StorePlace, file_damage, store_damage
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard, digest, hash_file, seal
from raypipe.storage.spec import StageSpec

SHARDS = [Shard(0, 0, 2), Shard(1, 2, 4)]


@pytest.fixture
def store(tmp_path):
    """(place, ledger) of a store; its manifest is missing."""
    storage, spec = PosixStorage(tmp_path / "s"), StageSpec("toy", 1)
    ledger = Ledger(storage, "toy", spec, SHARDS)
    for shard in SHARDS:
        path = ledger.storage.scratch() / "payload"
        path.write_bytes(b"rows %d" % shard.index)
        ledger.commit(shard, path, {})
    return StorePlace(storage, "toy", ledger.fingerprint), ledger


def names(place, complete):
    return [damage.name.rpartition("/")[2] for damage in store_damage(place, complete=complete)]


def test_a_store_without_manifest_is_damaged_only_if_it_was_complete(store):
    place, ledger = store
    assert names(place, complete=False) == []
    assert names(place, complete=True) == ["manifest.json"]
    ledger.publish()
    assert names(place, complete=True) == []
    nothing = StorePlace(place.stores, "toy", "f" * 32)
    assert names(nothing, complete=False) == names(nothing, complete=True) == ["f" * 32]


def test_a_pending_shard_is_damage_only_beside_a_manifest(store):
    place, ledger = store
    record = place.stores.root / place.folder / "shards" / "00001.json"
    held = record.read_bytes()
    record.unlink()
    assert names(place, complete=False) == []
    record.write_bytes(held)
    ledger.publish()
    record.unlink()
    assert names(place, complete=False) == ["00001.json"]


def test_the_record_of_another_shard_in_a_shards_place_is_damage(store):
    place, ledger = store
    ledger.publish()
    folder = place.stores.root / place.folder / "shards"
    (folder / "00000.json").write_bytes((folder / "00001.json").read_bytes())
    (damage,) = store_damage(place, complete=True)
    name = f"{place.folder}/shards/00000.json"
    assert (damage.name, damage.remedy) == (
        name, f"delete {name} and {place.folder}/manifest.json and run again"
    )  # fmt: skip
    assert damage.problem == f"{name}: expected {SHARDS[0]}, found a record of {SHARDS[1]}"


@pytest.mark.parametrize("published", [True, False])
def test_a_plan_is_written_again_from_a_manifest_or_the_store_is_computed_again(store, published):
    place, ledger = store
    if published:
        ledger.publish()
    plan = place.stores.root / place.folder / "plan.json"
    for spoil in (lambda: plan.write_bytes(b"{}"), plan.unlink):
        spoil()
        (damage,) = store_damage(place, complete=published)
        assert damage.name == f"{place.folder}/plan.json"
        assert damage.remedy.endswith("to write it" if published else "to compute it")


def test_the_payload_of_a_checkpoint_is_checked_and_a_finished_training_needs_no_measurement(store):
    place, _ = store
    folder = place.stores.root / place.folder
    blob = folder.parent.parent / "state"
    blob.write_bytes(b"weights")
    sha256 = hash_file(blob)
    place.stores.put(sha256, blob)
    place.stores.create(f"{place.folder}/steps/0000004.json", seal({"sha256": sha256}))
    place.stores.create(f"{place.folder}/measurements/0000004.json", seal({"mean": 1.0}))
    assert names(place, complete=False) == []
    place.stores.delete(f"blobs/{sha256[:2]}/{sha256}")
    (damage,) = store_damage(place, complete=False)
    assert damage.name.endswith("steps/0000004.json") and "all later files" in damage.remedy
    (folder / "measurements" / "0000004.json").write_bytes(b"{}")
    assert names(place, complete=False) == ["0000004.json"] * 2
    done = list(store_damage(place, complete=True))
    assert {d.remedy.partition(": ")[2] for d in done if "measurements" in d.name} == {
        "the training's record has its values"
    }


def test_a_file_that_differs_or_is_gone_is_named_with_what_to_delete(tmp_path):
    names = [
        "table.md",
        "runs/dev/a.trec",
        "python-docs/passages.tsv",
        "triples/a/queries.tsv",
        "collections/b/python-docs/qrels.test.txt",
        "collections/b/workspace.json",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    summary = {"files": {name: digest(name.encode()) for name in names}}
    assert list(file_damage(tmp_path, summary)) == [] == list(file_damage(tmp_path, {}))
    for number, name in enumerate(names):
        (tmp_path / name).write_text("x") if number % 2 else (tmp_path / name).unlink()
    found = {damage.name: damage for damage in file_damage(tmp_path, summary)}
    assert list(found) == names and "no such file" in found["table.md"].problem
    assert [
        damage.remedy.removesuffix(" and run again to write it") for damage in found.values()
    ] == [
        "delete table.md",
        "delete runs/dev/a.trec",
        "delete the folder python-docs",
        "delete the folder triples/a",
        "delete the folder collections/b/python-docs",
        "delete collections/b/workspace.json",
    ]
