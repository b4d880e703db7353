"""Fusion of whole runs, and the runs that are refused."""

import math

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.fuse import METHODS, Run, fuse_tables


def run(*lines, scored_by="bm25"):
    """Lines (query_row, passage_row, rank, score)."""
    columns = list(zip(*lines, strict=True)) if lines else [[], [], [], []]
    names = [scored_by] * len(lines) if isinstance(scored_by, str) else scored_by
    return pa.table([*map(list, columns), names], schema=schema.RUN)


BM25 = run((0, 10, 1, 8.0), (0, 11, 2, 7.0), (2, 12, 1, 5.0))
DENSE = run((0, 11, 1, 0.9), (0, 13, 2, 0.8), (1, 10, 1, 0.7), (1, 11, 2, 0.6), scored_by="dense")


def test_fused_run_covers_the_union_of_the_queries_in_row_order():
    fused = fuse_tables([BM25, DENSE], method="alternate", scored_by="fused")
    assert fused.schema == schema.RUN
    assert fused["query_row"].to_pylist() == [0, 0, 0, 1, 1, 2]
    assert fused["passage_row"].to_pylist() == [10, 11, 13, 10, 11, 12]
    assert fused["rank"].to_pylist() == [1, 2, 3, 1, 2, 1]
    assert set(fused["scored_by"].to_pylist()) == {"fused"}


def test_each_method_gives_its_own_scores():
    def best(method, **settings):
        fused = fuse_tables([BM25, DENSE], method=method, scored_by="fused", **settings)
        return fused["passage_row"][0].as_py(), fused["score"][0].as_py()

    assert best("rrf") == (11, np.float32(1 / 62 + 1 / 61))
    assert best("rrf", k=1) == (11, np.float32(1 / 3 + 1 / 2))
    assert best("weighted") == (10, 0.5)  # 10 and 11 tie; the smaller row first
    assert best("weighted", weights=[0.25, 0.75]) == (11, 0.75)
    assert best("average") == (10, np.float32((8 + np.float64(np.float32(0.8))) / 2))


@pytest.mark.parametrize("method", METHODS)
def test_result_does_not_depend_on_the_order_of_lines(method):
    rng = np.random.default_rng(5)
    lines = [
        (query, int(row), rank, float(rng.normal()))
        for query in range(20)
        for rank, row in enumerate(rng.permutation(60)[:30], start=1)
    ]
    runs = [run(*lines[:390]), run(*lines[210:])]
    shuffled = [table.take(rng.permutation(len(table))) for table in runs]
    fused = fuse_tables(runs, method=method, scored_by="f", depth=25)
    assert fused.equals(fuse_tables(shuffled, method=method, scored_by="f", depth=25))
    assert max(fused["rank"].to_pylist()) == 25


def test_the_rank_column_is_the_order_not_the_scores():
    """A reranked head stands above a tail whose scores come from another stage."""
    reranked = run((0, 1, 1, 0.2), (0, 2, 2, 9.0), scored_by=["mono", "bm25"])
    other = run((0, 3, 1, 1.0))
    fused = fuse_tables([reranked, other], method="alternate", scored_by="f")
    assert fused["passage_row"].to_pylist() == [1, 3, 2]


@pytest.mark.parametrize("method", ["weighted", "average"])
def test_scores_of_two_stages_in_one_query_are_not_added_up(method):
    reranked = run((0, 1, 1, 0.2), (0, 2, 2, 9.0), scored_by=["mono", "bm25"])
    with pytest.raises(InputError, match=r"run 1: 1 queries .*mono, bm25.*tail: drop"):
        fuse_tables([reranked, BM25], method=method, scored_by="f")
    by_query = run((0, 1, 1, 0.2), (1, 2, 1, 9.0), scored_by=["mono", "bm25"])
    assert len(fuse_tables([by_query, BM25], method=method, scored_by="f"))


def test_bad_runs_are_refused_all_at_once():
    nan = run((0, 1, 1, float("nan")))
    gap = run((0, 1, 1, 2.0), (0, 2, 3, 1.0))
    twice = run((4, 7, 1, 2.0), (4, 7, 2, 1.0))
    with pytest.raises(InputError) as caught:
        fuse_tables([nan, gap, twice], method="rrf", scored_by="f")
    first, second, third = caught.value.problems
    assert first.startswith("run 1: scores: 1 of 1 are not finite")
    assert "run 2: query_row 0" in second and "found 3 in place of 2" in second
    assert "run 3: 1 repeated (query_row, passage_row): (4, 7)" in third


def test_bad_settings_are_refused_all_at_once():
    with pytest.raises(InputError) as caught:
        fuse_tables([BM25] * 2, method="sum", weights=[math.nan], k=-1, depth=0, scored_by="f")
    assert len(caught.value.problems) == 7
    with pytest.raises(InputError, match="one weight per run, 2; found 3"):
        fuse_tables([BM25, BM25], method="weighted", weights=[1, 1, 1], scored_by="f")


def test_empty_runs_fuse_to_an_empty_run():
    fused = fuse_tables([run(), run()], method="average", scored_by="f")
    assert fused.schema == schema.RUN and len(fused) == 0


def test_one_run_is_cut_in_its_own_order_with_its_own_scores_and_stages():
    mixed = pa.concat_tables(
        [
            run((4, 9, 2, 1.0), (4, 8, 1, 1.0), (2, 5, 1, 0.5)),
            run((4, 7, 3, 3.0), (2, 6, 2, 9.0), scored_by="mono"),
        ]
    )
    found = fuse_tables([mixed], method=None, scored_by="f", depth=2)
    assert found.schema == schema.RUN
    assert [tuple(line.values()) for line in found.to_pylist()] == [
        (2, 5, 1, 0.5, "bm25"),
        (2, 6, 2, 9.0, "mono"),
        (4, 8, 1, 1.0, "bm25"),
        (4, 9, 2, 1.0, "bm25"),
    ]
    assert len(fuse_tables([mixed], method=None, scored_by="f")) == 5
    assert fuse_tables([run()], method=None, scored_by="f", depth=1).schema == schema.RUN
    with pytest.raises(InputError, match="repeated"):
        fuse_tables([run((0, 1, 1, 2.0), (0, 1, 2, 1.0))], method=None, scored_by="f", depth=1)


def test_settings_are_refused_only_where_they_are_wrong():
    a, b = run((0, 1, 1, 2.0)), run((0, 2, 1, 1.0))

    def problems(**settings):
        with pytest.raises(InputError) as caught:
            fuse_tables([a, b], scored_by="f", **settings)
        return caught.value.problems

    assert len(fuse_tables([a, b], method="rrf", k=0, depth=1, scored_by="f")) == 1
    assert len(fuse_tables([a, b], method="weighted", weights=[0, 1], scored_by="f")) == 2
    for k in (-0.5, float("inf"), float("nan")):
        assert problems(method="rrf", k=k) == [f"fuse: k: expected a number from 0; found {k}"]
    assert "depth: expected 1 or more; found 0" in problems(method="average", depth=0)[0]
    assert "weights are for method weighted" in problems(method="rrf", weights=[1, 1])[0]
    for weight in (float("inf"), float("nan"), -0.1):
        told = problems(method="weighted", weights=[1, weight])
        assert told == [f"fuse: weights: expected finite numbers from 0; found [1, {weight}]"]
    told = problems(method="weighted", weights=[0, 0.0])
    assert told == ["fuse: weights: expected one above 0, for something to rank by; found none"]
    told = problems(method="average", k=60)
    assert told == ["fuse: k is for method rrf; remove it or change 'average'"]
    assert "expected one of alternate, rrf" in problems(method="mean")[0]
    with pytest.raises(
        InputError, match="one run is cut at its depth, .* found method and k: remove"
    ):
        fuse_tables([a], method="rrf", k=3, scored_by="f")
    with pytest.raises(InputError, match="found weights: remove") as refused:
        fuse_tables([a], method=None, weights=[1], depth=0, scored_by="f")
    assert len(refused.value.problems) == 2
    with pytest.raises(InputError, match="method: expected one of alternate, .*; found None"):
        fuse_tables([a, b], method=None, scored_by="f")


def test_a_run_gives_each_querys_lines_and_none_for_others():
    table = run((4, 9, 2, 1.0), (2, 5, 1, 3.0), (4, 8, 1, 2.0), (6, 1, 1, 0.5))
    opened = Run(table, name="x")
    assert opened.ranking(4).rows.tolist() == [8, 9]
    assert opened.ranking(4).scores.tolist() == [2.0, 1.0]
    assert opened.ranking(2).rows.tolist() == [5] and opened.ranking(6).rows.tolist() == [1]
    for absent in (0, 3, 5, 7):
        assert len(opened.ranking(absent).rows) == len(opened.ranking(absent).scores) == 0
    assert list(opened.problems()) == list(opened.mixed_scales()) == []


def test_a_passage_of_two_queries_is_no_repeat_and_repeats_are_named_up_to_ten():
    assert list(Run(run((0, 7, 1, 2.0), (1, 7, 1, 2.0)), name="x").problems()) == []
    lines = [(0, n // 2, n + 1, float(-n)) for n in range(24)]
    (problem,) = Run(run(*lines), name="x").problems()
    assert "12 repeated" in problem and "(0, 9);" in problem and "(0, 10)" not in problem


def test_scales_are_mixed_only_within_a_query():
    mixed = pa.concat_tables(
        [
            run((0, 1, 1, 2.0), (1, 1, 1, 2.0), (2, 5, 1, 1.0)),
            run((1, 2, 2, 9.0), (2, 6, 2, 9.0), (3, 1, 1, 1.0), scored_by="mono"),
        ]
    )
    (problem,) = Run(mixed, name="x").mixed_scales()
    assert "x: 2 queries (first: query_row 1)" in problem and "(bm25, mono)" in problem
