import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.rerank import rerank


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
