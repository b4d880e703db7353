"""Passages added, removed and changed between two collections, by hand."""

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.driver.generations.publish import Changes, changes
from raypipe.stages.ids import ids_stage
from raypipe.stages.reuse import pairing
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored


@pytest.fixture
def sides(tmp_path):
    """The stored ids and hashes of a collection given as id -> text."""
    storage = PosixStorage(tmp_path / "stores")

    def make(passages):
        spec = StageSpec("given", 1, {"passages": passages, "order": list(passages)})
        ledger = Ledger(storage, "passages", spec, [Shard(0, 0, len(passages))])
        file = storage.scratch() / "file"
        columns = [list(passages), list(passages.values())]
        write_table(file, schema.PASSAGES, [pa.table(columns, schema=schema.PASSAGES)])
        ledger.commit(ledger.shards[0], file, {"rows": len(passages)})
        collection = Stored(storage, ledger.publish())
        return finished(storage, ids_stage(collection))

    return make


def finished(storage, stage):
    ledger = Ledger(storage, stage.spec.stage, stage.spec, stage.shards(Sizing()))
    opened = stage.open(Site(storage.scratch()))
    for shard in ledger.shards:
        payload = opened.run(shard, (), lambda rows: None)
        ledger.commit(shard, payload.path, payload.facts)
    return Stored(storage, ledger.publish())


@pytest.mark.parametrize("at_once", [1, 2, 1 << 20])
def test_each_passage_counts_once_whatever_its_row(sides, monkeypatch, at_once):
    monkeypatch.setattr(pairing, "IDS_AT_ONCE", at_once)
    now = sides({"new": "x", "b": "two", "a": "one", "c": "other"})
    before = sides({"a": "one", "b": "two", "c": "three", "d": "four", "e": "five"})
    assert changes(now, before) == Changes(added=1, removed=2, changed=1, unchanged=2)
    assert changes(before, now) == Changes(added=2, removed=1, changed=1, unchanged=2)


def test_an_exchange_of_texts_is_two_changes(sides):
    now, before = sides({"a": "1", "b": "2", "c": "3"}), sides({"a": "2", "b": "1", "c": "3"})
    assert changes(now, before) == Changes(added=0, removed=0, changed=2, unchanged=1)


def test_an_empty_collection_has_neither_lost_nor_kept_anything(sides):
    full, empty = sides({"a": "1"}), sides({})
    assert changes(full, empty) == Changes(added=1, removed=0, changed=0, unchanged=0)
    assert changes(empty, full) == Changes(added=0, removed=1, changed=0, unchanged=0)
