from raypipe import schema
from raypipe.stages.texts.queries import QueriesStage


def test_an_empty_query_set_is_a_store_too(stores, tmp_path):
    file = tmp_path / "q.tsv"
    file.write_text("a\tone\n")
    stored = stores.finished(QueriesStage(file, only=frozenset("b")))
    assert stored.num_rows == 0 and stored.table(schema.QUERIES).num_rows == 0
