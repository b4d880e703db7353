import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.stages.prepare import QueriesStage
from raypipe.stages.stage import Site
from raypipe.storage.records import Shard


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def test_queries_stand_in_file_order_all_or_those_named(stores, tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("b\tsecond\na\tfirst\nc\tthird\n")
    whole = stores.finished(QueriesStage(file))
    assert rows_of(whole.table(schema.QUERIES)) == [("b", "second"), ("a", "first"), ("c", "third")]
    assert whole.num_rows == whole.manifest.records[0].facts["rows"] == 3
    some = stores.finished(QueriesStage(file, only=frozenset("ca")))
    assert some.table(schema.QUERIES)["query_id"].to_pylist() == ["a", "c"] and some.num_rows == 2
    none = stores.finished(QueriesStage(file, only=frozenset()))
    assert none.num_rows == none.table(schema.QUERIES).num_rows == 0
    names = {
        QueriesStage(file, only).spec.fingerprint()
        for only in (None, frozenset(), frozenset("ca"), frozenset("ac"))
    }
    assert len(names) == 3


def test_queries_that_were_not_planned_are_refused(stores, tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("a\tx\nb\ty\n")
    opened = QueriesStage(file).open(Site(tmp_path))
    for planned in (1, 3):
        with pytest.raises(InputError, match=f"expected {planned} queries, as planned, found 2"):
            opened.run(Shard(0, 0, planned), (), lambda rows: None)
