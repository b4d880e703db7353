"""Runs as stores hold them: depth cuts, ties, and the lines of a block of queries."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.stages.fuse import fuse_stage
from raypipe.stages.run_tables import best, dense_table, read_queries_of_run, run_table, with_ids
from raypipe.stages.stage import Sizing


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def test_empty_places_of_a_search_are_no_lines():
    rows = np.array([[7, 3, -1], [-1, -1, -1], [4, -1, -1]])
    scores = np.array([[2, 1, -np.inf], [-np.inf] * 3, [5, -np.inf, -np.inf]], np.float32)
    found = dense_table(10, rows, scores, scored_by="dense")
    assert rows_of(found) == [
        (10, 7, 1, 2.0, "dense"),
        (10, 3, 2, 1.0, "dense"),
        (12, 4, 1, 5.0, "dense"),
    ]


@pytest.mark.parametrize("depth", [1, 2, 3, 99])
def test_parts_are_merged_by_score_then_row_and_cut_at_depth(depth):
    rng = np.random.default_rng(depth)
    parts, every = [], []
    for part in range(3):
        queries = np.repeat(np.arange(4, dtype=np.int32), 5)
        rows = np.concatenate([rng.choice(20, 5, replace=False) + 20 * part for _ in range(4)])
        scores = rng.integers(0, 4, 20).astype(np.float32)
        parts.append(run_table(queries, rows, scores, scored_by="part"))
        every += zip(queries.tolist(), rows.tolist(), scores.tolist(), strict=True)
    expected = []
    for query in range(4):
        own = sorted((-s, row) for q, row, s in every if q == query)[:depth]
        expected += [(query, row, r, -s, "all") for r, (s, row) in enumerate(own, 1)]
    assert rows_of(best(pa.concat_tables(parts[::-1]), depth=depth, scored_by="all")) == expected


def test_a_run_table_numbers_each_querys_lines_from_one():
    table = run_table(
        np.array([4, 4, 7]), np.array([9, 3, 9]), np.array([2, 1, 5], np.float32), scored_by="s"
    )
    assert table.schema == schema.RUN
    assert rows_of(table) == [(4, 9, 1, 2.0, "s"), (4, 3, 2, 1.0, "s"), (7, 9, 1, 5.0, "s")]


def test_a_block_of_queries_is_read_from_every_shard_that_holds_some(stores):
    """Of queries 0 to 7, 6 has no line."""
    lines = [(query, 10 * query + n, 3.0 - n) for query in (*range(6), 7) for n in range(2)]
    run = stores.run(lines[:6], lines[6:10], lines[10:])
    for start in range(9):
        for stop in range(start, 10):
            found = read_queries_of_run(run, start, stop)
            expected = [(query, row) for query, row, _ in lines if start <= query < stop]
            assert [line[:2] for line in rows_of(found)] == expected
    assert read_queries_of_run(run, 6, 7) == schema.RUN.empty_table()


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
def fused(stores):
    """A stage that fuses runs of three queries by RRF, with changes."""
    given = {"name": "f", "sides": stores.sides(3), "method": "rrf", "depth": 10}
    return lambda runs, **settings: fuse_stage(runs=runs, **{**given, **settings})


@pytest.mark.parametrize("block", [1, 3])
def test_fused_runs_follow_the_recipes_order_and_settings(stores, fused, block):
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


def test_only_settings_that_a_method_reads_name_its_run(stores, fused):
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
