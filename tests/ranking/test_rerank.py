"""The first k reordered, the tail below as it was: boundaries, ties, several lines of tail."""

import numpy as np
import pyarrow as pa
import pytest
from run_with_tails import RUN

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.rerank import rerank

SCORES = np.array([-2, -1, 99, 98, 97, 96, -7], np.float32)


def test_a_tail_of_several_lines_keeps_its_order_scores_and_names():
    found = rerank(RUN, SCORES, k=2, tail="keep", scored_by="mono").to_pydict()
    # Neither the tail's scores (1, 7, 5, 6) nor its rows nor the scores given for it order it.
    assert found["passage_row"] == [3, 8, 70, 50, 60, 1, 4]
    assert found["query_row"] == [0, 0, 0, 0, 0, 0, 2]
    assert found["rank"] == [1, 2, 3, 4, 5, 6, 1]
    assert found["score"] == [-1, -2, 1, 7, 5, 6, -7]
    assert found["scored_by"] == ["mono"] * 2 + ["dense", "bm25", "bm25", "dense", "mono"]


def test_the_tail_keeps_its_order_whatever_the_order_of_the_lines():
    turned = RUN.take([5, 3, 1, 2, 0, 4, 6])
    scores = SCORES[[5, 3, 1, 2, 0, 4, 6]]
    kept = {"k": 2, "tail": "keep", "scored_by": "mono"}
    assert rerank(turned, scores, **kept).equals(rerank(RUN, SCORES, **kept))


def test_dropping_the_tail_leaves_k_lines_a_query():
    found = rerank(RUN, SCORES, k=2, tail="drop", scored_by="mono").to_pydict()
    assert found["passage_row"] == [3, 8, 4] and found["rank"] == [1, 2, 1]


@pytest.mark.parametrize("k", [6, 7])
def test_with_k_from_the_depth_on_there_is_no_tail(k):
    found = rerank(RUN, SCORES, k=k, tail="keep", scored_by="mono").to_pydict()
    assert found["passage_row"] == [70, 50, 60, 1, 3, 8, 4]
    assert set(found["scored_by"]) == {"mono"}


def test_equal_scores_of_the_first_k_stand_by_row_and_zeros_tie():
    scores = np.array([0.0, -0.0, 0.0, 5, 5, 5, 0], np.float32)
    found = rerank(RUN, scores, k=3, tail="keep", scored_by="mono").to_pydict()
    assert found["passage_row"][:3] == [3, 8, 70]


def test_a_line_of_the_tail_needs_no_score_and_is_not_failed():
    scores = np.where(np.arange(7) < 2, SCORES, np.nan).astype(np.float32)
    scores[6] = -7
    failed = np.array([False, False, True, False, False, False, False])  # read for the first k
    found = rerank(RUN, scores, k=2, tail="keep", scored_by="mono", failed=failed).to_pydict()
    assert found["passage_row"] == [3, 8, 70, 50, 60, 1, 4]


def test_a_failed_candidate_leaves_its_place_to_the_tail():
    failed = np.array([False, True, False, False, False, False, True])
    scores = np.where(failed, np.nan, SCORES).astype(np.float32)
    found = rerank(RUN, scores, k=2, tail="keep", scored_by="mono", failed=failed).to_pydict()
    assert found["passage_row"] == [8, 70, 50, 60, 1] and found["rank"] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("tail", ["keep", "drop"])
def test_a_run_without_lines_stays_one(tail):
    none = schema.RUN.empty_table()
    assert rerank(none, np.empty(0, np.float32), k=3, tail=tail, scored_by="mono") == none


def table(queries, rows, rank, scores, scored_by="bm25"):
    names = pa.array([scored_by] * len(rank), pa.string())
    columns = [queries, rows, rank, np.asarray(scores, np.float32), names]
    return pa.table(columns, schema=schema.RUN)


def test_the_first_k_are_reordered_and_the_rest_stay_below():
    queries = np.array([0, 0, 0, 0, 1, 1], np.int32)
    rows = np.array([8, 3, 5, 1, 2, 9])
    rank = np.array([1, 2, 3, 4, 1, 2], np.int32)
    run = table(queries, rows, rank, [9, 8, 7, 6, 3, 2])
    scores = np.array([-3.0, -1.0, -1.0, 99, -5.0, -4.0], np.float32)
    found = rerank(run, scores, k=3, tail="keep", scored_by="mono").to_pydict()
    assert found["passage_row"] == [3, 5, 8, 1, 9, 2]  # 3 and 5 tie: the smaller row first
    assert found["rank"] == [1, 2, 3, 4, 1, 2]
    assert found["score"] == [-1, -1, -3, 6, -4, -5]
    assert found["scored_by"] == ["mono"] * 3 + ["bm25"] + ["mono"] * 2
    cut = rerank(run, scores, k=3, tail="drop", scored_by="mono").to_pydict()
    assert cut["passage_row"] == [3, 5, 8, 9, 2]


def test_a_failed_candidate_is_ranked_nowhere_and_nan_is_refused():
    queries, rows = np.zeros(3, np.int32), np.array([8, 3, 5])
    run = table(queries, rows, np.array([1, 2, 3], np.int32), [9, 8, 7])
    scores = np.array([1, np.nan, 2], np.float32)
    failed = np.array([False, True, False])
    found = rerank(run, scores, k=3, tail="keep", scored_by="mono", failed=failed).to_pydict()
    assert found["passage_row"] == [5, 8] and found["rank"] == [1, 2]
    with pytest.raises(InputError, match="not finite"):
        rerank(run, scores, k=3, tail="keep", scored_by="mono")


def test_equal_scores_are_ordered_by_row_or_by_the_rank_below():
    even = np.zeros(len(SCORES), np.float32)
    by_row = rerank(RUN, even, k=3, tail="keep", scored_by="mono").to_pydict()["passage_row"]
    by_rank = rerank(RUN, even, k=3, tail="keep", scored_by="mono", ties="rank").to_pydict()
    assert by_rank["passage_row"] == RUN["passage_row"].to_pylist()
    assert by_row[:3] == sorted(by_row[:3]) != by_rank["passage_row"][:3]
