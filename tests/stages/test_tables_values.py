"""Runs as tables, and the stages that read, fuse and number things, by small numbers."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.stages.fuse import FuseStage
from raypipe.stages.read_run import ReadRunStage
from raypipe.stages.run_tables import best, dense_table, read_queries_of_run, run_table, with_ids
from raypipe.stages.stage import Needs, Site, Sizing, ranges
from raypipe.stages.texts.ids import IdsStage, column_of_rows, id_index, ids_of_rows
from raypipe.stages.texts.queries import QueriesStage
from raypipe.storage.payloads.tables import ROW_GROUP_ROWS
from raypipe.storage.records import Shard


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def test_shards_are_at_most_so_large_as_equal_as_can_be_and_never_none():
    assert ranges(7, 3) == [Shard(0, 0, 2), Shard(1, 2, 4), Shard(2, 4, 7)]
    assert ranges(6, 3) == [Shard(0, 0, 3), Shard(1, 3, 6)]
    assert ranges(3, 3) == [Shard(0, 0, 3)]
    assert ranges(0, 3) == [Shard(0, 0, 0)]


def test_a_stage_needs_one_core_and_no_gpu_unless_it_says_so():
    assert Needs() == Needs(num_cpus=1.0, num_gpus=0.0, threads=1, memory_bytes=0)
    assert Sizing() == Sizing(
        num_actors=1, shard_tokens=250_000, shard_rows=100_000, shard_queries=1_000
    )


def test_a_run_table_numbers_each_querys_lines_from_one():
    table = run_table(
        np.array([4, 4, 7]), np.array([9, 3, 9]), np.array([2, 1, 5], np.float32), scored_by="s"
    )
    assert table.schema == schema.RUN
    assert rows_of(table) == [(4, 9, 1, 2.0, "s"), (4, 3, 2, 1.0, "s"), (7, 9, 1, 5.0, "s")]


def test_places_of_a_search_without_a_passage_are_no_lines():
    rows = np.array([[5, 0, -1], [-1, -1, -1], [7, -1, -1]])
    scores = np.array([[3, 2, 0], [0, 0, 0], [1, 0, 0]], np.float32)
    table = dense_table(10, rows, scores, scored_by="d")
    assert rows_of(table) == [(10, 5, 1, 3.0, "d"), (10, 0, 2, 2.0, "d"), (12, 7, 1, 1.0, "d")]


def test_a_block_of_queries_is_read_from_every_shard_that_holds_some(stores):
    run = stores.run(
        [(0, 1, 3.0), (1, 2, 2.0), (2, 3, 1.0)], [(3, 4, 3.0), (4, 5, 2.0)], [(5, 6, 1.0)]
    )
    assert read_queries_of_run(run, 1, 4)["query_row"].to_pylist() == [1, 2, 3]
    assert read_queries_of_run(run, 4, 5)["passage_row"].to_pylist() == [5]
    assert read_queries_of_run(run, 0, 9).num_rows == 6
    assert read_queries_of_run(run, 6, 9) == schema.RUN.empty_table()


def test_the_best_of_parts_are_by_score_then_row_and_cut_at_depth():
    parts = run_table(
        np.array([1, 0, 0, 0, 1]),
        np.array([5, 8, 2, 9, 4]),
        np.array([1, 2, 2, 3, 7], np.float32),
        scored_by="part",
    )
    found = best(parts, depth=2, scored_by="whole")
    assert rows_of(found) == [
        (0, 9, 1, 3.0, "whole"), (0, 2, 2, 2.0, "whole"),
        (1, 4, 1, 7.0, "whole"), (1, 5, 2, 1.0, "whole"),
    ]  # fmt: skip


def test_a_run_leaves_with_original_ids(stores):
    collection = stores.passages(["a", "b"], ["c"])
    queries = pa.table([["first", "second"], ["x", "y"]], schema=schema.QUERIES)
    run = run_table(
        np.array([0, 1, 1]), np.array([2, 0, 2]), np.array([1, 3, 2], np.float32), scored_by="s"
    )
    assert rows_of(with_ids(run, queries, collection)) == [
        ("first", "p2", 1, 1.0), ("second", "p0", 1, 3.0), ("second", "p2", 2, 2.0),
    ]  # fmt: skip


@pytest.fixture
def large(stores):
    """Two shards, the first of more than two row groups; passage n has the text `t N`."""
    first = 2 * ROW_GROUP_ROWS + 10
    texts = [f"t {n}" for n in range(first + 5)]
    return stores.passages(texts[:first], texts[first:])


def test_columns_of_rows_come_in_the_order_asked_over_groups_and_shards(large):
    first = 2 * ROW_GROUP_ROWS + 10
    rows = np.array([first + 4, 0, first, ROW_GROUP_ROWS, first - 1, ROW_GROUP_ROWS - 1, 0])
    assert column_of_rows(large, rows, "text") == [f"t {n}" for n in rows]
    assert ids_of_rows(large, rows[:3]) == [f"p{n}" for n in rows[:3]]
    assert ids_of_rows(large, np.array([first])) == [f"p{first}"]
    assert ids_of_rows(large, np.empty(0, np.int64)) == []


def test_the_id_index_finds_the_row_of_every_id_and_minus_one_for_others(stores, large):
    beats = []
    stored = stores.finished(IdsStage(large), beats=beats)
    index = id_index(large, stored)
    last = large.num_rows - 1
    assert index.rows_of(["p0", f"p{last}", "nobody", f"p{ROW_GROUP_ROWS}"]).tolist() == [
        0, last, -1, ROW_GROUP_ROWS,
    ]  # fmt: skip
    assert stored.manifest.records[0].facts["rows"] == large.num_rows == stored.num_rows
    assert len(beats) == 3 + 1  # one a row group


def test_repeated_ids_are_refused(stores):
    twice = stores.tables(schema.PASSAGES, [["a", "b"], ["x", "y"]], [["a"], ["z"]])
    with pytest.raises(InputError, match="a"):
        stores.finished(IdsStage(twice))


def test_whether_ids_must_be_dense_names_the_id_index(stores):
    collection = stores.passages(["a"])
    assert IdsStage(collection).spec == IdsStage(collection, dense=False).spec
    assert IdsStage(collection).spec != IdsStage(collection, dense=True).spec


def test_queries_stand_in_file_order_all_or_those_named(stores, tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("b\tsecond\na\tfirst\nc\tthird\n")
    whole = stores.finished(QueriesStage(file))
    assert rows_of(whole.table(schema.QUERIES)) == [("b", "second"), ("a", "first"), ("c", "third")]
    assert whole.num_rows == whole.manifest.records[0].facts["rows"] == 3
    some = stores.finished(QueriesStage(file, only=frozenset("ca")))
    assert some.table(schema.QUERIES)["query_id"].to_pylist() == ["a", "c"] and some.num_rows == 2
    none = stores.finished(QueriesStage(file, only=frozenset()))
    assert none.num_rows == 0
    names = {
        QueriesStage(file, only).spec.fingerprint()
        for only in (None, frozenset(), frozenset("ca"), frozenset("ac"))
    }
    assert len(names) == 3


def run_file(folder, text):
    file = folder / "given.trec"
    file.write_text(text)
    return file


def test_queries_that_were_not_planned_are_refused(stores, tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("a\tx\nb\ty\n")
    stage = QueriesStage(file)
    stage.open(Site(tmp_path))
    for planned in (1, 3):
        with pytest.raises(InputError, match=f"expected {planned} queries, as planned, found 2"):
            stage.run(Shard(0, 0, planned), (), lambda rows: None)


def test_a_given_run_keeps_its_order_scores_and_ranks_by_query_row(stores, tmp_path):
    collection, queries = stores.passages(["a", "b"], ["c"]), stores.queries("x", "y", "z")
    file = run_file(
        tmp_path, "q2 Q0 p1 1 5 t\nq2 Q0 p0 2 4 t\nq0 Q0 p2 1 0.5 t\nq0 Q0 p1 2 0.25 t\n"
    )
    ids = stores.finished(IdsStage(collection))
    stored = stores.finished(ReadRunStage("given", file, collection, ids, queries))
    assert rows_of(stored.whole_table(schema.RUN)) == [
        (0, 2, 1, 0.5, "given"), (0, 1, 2, 0.25, "given"),
        (2, 1, 1, 5.0, "given"), (2, 0, 2, 4.0, "given"),
    ]  # fmt: skip
    assert stored.num_rows == 3 and stored.manifest.records[0].facts["rows"] == 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q9 Q0 p1 1 5 t\n", "1 query ids are not in the query set, first q9"),
        ("q0 Q0 p7 1 5 t\nq1 Q0 p7 1 4 t\n", "1 passage ids are not in the collection, first p7"),
        ("q0 Q0 p9 1 5 t\nq0 Q0 p8 2 4 t\n", "2 passage ids are not .* first p8, p9"),
    ],
)
def test_ids_that_nobody_has_are_refused(stores, tmp_path, line, said):
    collection, queries = stores.passages(["a", "b"]), stores.queries("x", "y")
    ids = stores.finished(IdsStage(collection))
    with pytest.raises(InputError, match=said):
        stores.finished(ReadRunStage("given", run_file(tmp_path, line), collection, ids, queries))


def fused(runs, **settings):
    given = {"name": "f", "runs": runs, "num_queries": 3, "method": "rrf", "depth": 10}
    return FuseStage(**{**given, **settings})


@pytest.mark.parametrize("block", [1, 3])
def test_fused_runs_follow_the_recipes_order_and_settings(stores, block):
    runs = {
        "b": stores.run([(0, 1, 4.0), (0, 2, 2.0), (1, 3, 1.0)]),
        "a": stores.run([(0, 2, 9.0), (0, 3, 8.0)], [(2, 5, 1.0)]),
    }
    sizing = Sizing(shard_queries=block)

    def lines(**settings):
        table = stores.finished(fused(runs, **settings), sizing).whole_table(schema.RUN)
        return [(query, row, score) for query, row, _, score, _ in rows_of(table)]

    assert [line[1] for line in lines(method="alternate")] == [1, 2, 3, 3, 5]
    third, half = np.float32(1 / 3), np.float32(1 / 2)
    assert lines(k=1)[:3] == [(0, 2, np.float32(1 / 3 + 1 / 2)), (0, 1, half), (0, 3, third)]
    assert lines(depth=1, k=1) == [(0, 2, np.float32(1 / 3 + 1 / 2)), (1, 3, half), (2, 5, half)]
    assert lines(method="weighted", weights=[3.0, 1.0])[:2] == [(0, 1, 3.0), (0, 2, 1.0)]
    assert lines(method="weighted")[:2] == [(0, 1, 0.5), (0, 2, 0.5)]


def test_only_settings_that_a_method_reads_name_its_run(stores):
    a, b = stores.run([(0, 1, 4.0)]), stores.run([(0, 2, 4.0)])
    runs = {"a": a, "b": b}
    rrf = fused(runs).spec.fingerprint()
    assert fused(runs, k=61).spec.fingerprint() != rrf != fused(runs, depth=9).spec.fingerprint()
    assert fused(runs, weights=[1, 2]).spec.fingerprint() == rrf
    turns = fused(runs, method="alternate").spec.fingerprint()
    assert fused(runs, method="alternate", k=61).spec.fingerprint() == turns != rrf
    assert fused({"b": b, "a": a}, method="alternate").spec.fingerprint() != turns
    shares = fused(runs, method="weighted", weights=[1, 2]).spec.fingerprint()
    assert fused(runs, method="weighted", weights=[1, 3]).spec.fingerprint() != shares
    assert fused(runs, method="weighted").spec.params["weights"] is None
