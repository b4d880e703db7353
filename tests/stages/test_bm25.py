from dataclasses import replace

import pyarrow as pa
import pytest
from long_collection import (
    NUM_PASSAGES,
    commit,
    passages,
)

from raypipe import schema
from raypipe.engines.lucene.index import pack_folder
from raypipe.engines.lucene.search import Feedback
from raypipe.errors import CorruptError
from raypipe.stages.bm25 import Bm25Stage, IndexStage, open_index
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.tables import Sides
from raypipe.storage.payloads import read_table, write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.store import Stored

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def stored_table(storage, name, table_schema, table):
    path = storage.scratch() / "payload"
    write_table(path, table_schema, [table])
    return commit(storage, name, [(path, table.num_rows)])


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path / "stores")


@pytest.fixture
def collection(storage):
    return stored_table(storage, "collection", schema.PASSAGES, passages(0, NUM_PASSAGES))


@pytest.fixture
def index(storage, long_index):
    packed = storage.scratch() / "packed"
    pack_folder(long_index, packed)
    return commit(storage, "lucene", [(packed, NUM_PASSAGES)])


def test_an_index_that_was_changed_or_cut_is_refused_when_a_stage_opens_it(
    storage, index, tmp_path
):
    path = index.path(index.manifest.records[0])
    content = path.read_bytes()
    path.chmod(0o644)
    for damaged in (content[:-1], content[:-1] + bytes([content[-1] ^ 1])):
        path.write_bytes(damaged)
        elsewhere = Stored(PosixStorage(storage.root), index.manifest)  # another process
        with pytest.raises(CorruptError, match=index.manifest.records[0].sha256):
            open_index(elsewhere, tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_an_index_of_another_collection_is_another_store(storage, collection):
    shorter = stored_table(storage, "shorter", schema.PASSAGES, passages(0, NUM_PASSAGES - 1))
    one, other = (IndexStage(stored).spec.fingerprint() for stored in (collection, shorter))
    assert one != other


def test_many_shards_of_queries_find_what_one_shard_finds(storage, collection, index, tmp_path):
    texts = [f"w{n} w{n + 3} own{n * 90 + 1}" for n in range(29)] + ["zebra"]
    queries = pa.table([[f"q{n}" for n in range(30)], texts], schema=schema.QUERIES)
    queries = stored_table(storage, "queries", schema.QUERIES, queries)
    stage = Bm25Stage("bm25", Sides(queries, collection), index, 0.9, 0.4, 20)
    site = Site(tmp_path / "scratch")
    site.scratch.mkdir()
    opened = stage.open(site)
    runs = []
    for size in (7, 30):
        parts = []
        for shard in stage.shards(Sizing(shard_queries=size)):
            payload = opened.run(shard, (), lambda rows: None)
            parts.append(read_table(payload.path, schema.RUN))
            assert payload.facts == {"rows": parts[-1].num_rows}
            assert set(parts[-1]["query_row"].to_pylist()) == set(range(shard.start, shard.stop))
        runs.append((len(parts), pa.concat_tables(parts)))
    assert [num for num, _ in runs] == [5, 1]
    assert runs[0][1].equals(runs[1][1])
    assert runs[1][1].num_rows == 30 * 20


def test_the_spec_of_an_index_says_in_row_order(collection):
    assert IndexStage(collection).spec.semantics == 2


def test_rm3_and_another_language_are_in_a_fingerprint_and_their_absence_is_not(
    storage, collection, index
):
    queries = stored_table(
        storage, "queries", schema.QUERIES, pa.table([["q"], ["w1"]], schema=schema.QUERIES)
    )
    plain = Bm25Stage("bm25", Sides(queries, collection), index, 0.9, 0.4, 20)
    expanded = replace(plain, rm3=Feedback(fb_terms=3))
    assert "rm3" not in plain.spec.params
    assert expanded.spec.params["rm3"] == {
        "fb_terms": 3, "fb_docs": 10, "original_query_weight": 0.5, "filter_terms": True,
    }  # fmt: skip
    assert expanded.spec.fingerprint() != plain.spec.fingerprint()
    assert IndexStage(collection).spec == IndexStage(collection, "en").spec
    assert IndexStage(collection, "de").spec.params["language"] == "de"
