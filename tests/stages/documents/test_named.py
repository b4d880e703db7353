"""The ids of documents whose passages were given."""

from raypipe import schema
from raypipe.stages.documents.name_documents import NamedDocumentsStage
from raypipe.stages.documents.passage_map import MapStage
from raypipe.stages.stage import Sizing
from raypipe.storage.records import Shard


def test_shards_are_ranges_of_documents_and_small(stores):
    homes = stores.tables(schema.HOMES, [["x", "y", "x"], [""] * 3])
    stage = NamedDocumentsStage(homes, stores.finished(MapStage(homes, given=True)))
    assert stage.shards(Sizing(shard_rows=5)) == [Shard(0, 0, 2)]
    assert stage.estimated_bytes(2, 2) == 32
    assert sorted(stage.spec.inputs) == ["homes", "map"]
