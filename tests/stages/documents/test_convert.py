"""Files as documents, as the homes of passages, and as passages with named fields."""

import gzip
import json

import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.stages.documents.convert import RecordsStage
from raypipe.stages.documents.name_documents import NamedDocumentsStage
from raypipe.stages.documents.passage_map import MapStage
from raypipe.stages.prepare import CountStage, counted
from raypipe.stages.stage import Sizing
from raypipe.storage.records import Shard

FIELDS = {"id": "key", "body": "text", "title": "name", "document": "page"}


@pytest.fixture
def files(tmp_path):
    """Five records in two files, the second one compressed."""
    lines = [
        json.dumps(
            {"key": f"k{n}", "text": f" text {n}", "name": f"name {n}", "page": f"p{n // 2}"}
        )
        for n in range(5)
    ]
    plain, packed = tmp_path / "1.jsonl", tmp_path / "2.jsonl.gz"
    plain.write_text("".join(line + "\n" for line in lines[:3]))
    packed.write_bytes(gzip.compress("".join(line + "\n" for line in lines[3:]).encode()))
    return [plain, packed]


@pytest.fixture
def stage(stores, files):
    def go(what, **settings):
        facts = counted(stores.finished(CountStage(files, "jsonl")))
        settings = {"format": "jsonl", "fields": FIELDS, **settings}
        return RecordsStage(files, facts, what=what, **settings)

    return go


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_documents_row_is_its_place_over_all_files(stores, stage, size):
    stored = stores.finished(stage("documents"), Sizing(shard_rows=size))
    table = stored.table(schema.DOCUMENTS)
    assert table["document_id"].to_pylist() == [f"k{n}" for n in range(5)]
    assert table["body"].to_pylist() == [f" text {n}" for n in range(5)]
    assert table["title"].to_pylist() == [f"name {n}" for n in range(5)]
    assert set(table["headings"].to_pylist()) == {""}


def test_passages_that_are_given_have_their_text_and_their_homes_in_the_same_rows(stores, stage):
    passages = stores.finished(stage("passages")).table(schema.PASSAGES)
    homes = stores.finished(stage("homes")).table(schema.HOMES)
    assert passages["passage_id"].to_pylist() == [f"k{n}" for n in range(5)]
    assert homes["document_id"].to_pylist() == ["p0", "p0", "p1", "p1", "p2"]


def test_other_fields_are_another_store_and_the_three_differ(stage):
    names = {stage(what).spec.fingerprint() for what in ("documents", "passages", "homes")}
    other = stage("documents", fields={**FIELDS, "title": "key"}).spec.fingerprint()
    replaced = stage("documents", errors="replace").spec.fingerprint()
    assert len({*names, other, replaced}) == 5
    produces = [stage(what).spec.produces for what in ("documents", "passages", "homes")]
    assert produces == ["documents", "passages", "homes"]


def test_a_record_without_a_named_field_is_refused_with_its_line(stores, stage):
    with pytest.raises(InputError, match='1.jsonl: line 1: expected a field "body"'):
        stores.finished(stage("documents", fields={**FIELDS, "body": "body"}))


def test_the_estimate_is_that_of_the_files(stage, files):
    whole = files[0].stat().st_size + 5 * files[1].stat().st_size
    assert stage("documents").estimated_bytes(5, 5) == whole


def test_shards_are_ranges_of_documents_and_small(stores):
    homes = stores.tables(schema.HOMES, [["x", "y", "x"], [""] * 3])
    stage = NamedDocumentsStage(homes, stores.finished(MapStage(homes, given=True)))
    assert stage.shards(Sizing(shard_rows=5)) == [Shard(0, 0, 2)]
    assert stage.estimated_bytes(2, 2) == 32
    assert sorted(stage.spec.inputs) == ["homes", "map"]
