"""s = a z + f by hand, and against a loop over the lines."""

import math

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.blend import Blend, first_stage

LINES = [(0, 7, 1, 9.0), (0, 3, 2, 6.0), (0, 5, 3, 5.0), (0, 1, 4, 1.0), (2, 5, 1, 4.0),
         (2, 7, 2, 4.0), (3, 9, 1, -2.0)]  # fmt: skip
RAW = Blend(4.0, "raw")


def run(*lines, stages=("bm25",) * 7):
    columns = zip(*(lines or LINES), strict=True)
    fields = list(schema.RUN)
    made = [pa.array(c, f.type) for c, f in zip(columns, fields[:4], strict=True)]
    return pa.table([*made, pa.array(stages[: len(made[0])])], schema=schema.RUN)


def keys(*pairs):
    queries, rows = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return queries, rows, np.full(len(rows), -1, np.int64)


def z(last, table=None):
    table = run() if table is None else table
    columns = (table[name].to_numpy() for name in ("query_row", "rank", "score"))
    return first_stage(*columns, last=last).tolist()


def test_z_is_from_0_to_1_over_the_first_candidates_and_1_where_all_are_equal():
    assert z(9) == [1.0, 0.625, 0.5, 0.0, 1.0, 1.0, 1.0]
    assert z(3) == [1.0, 0.25, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert z(1) == [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    assert z(9, run().slice(0, 0)) == []


def test_raw_scores_are_added_to_the_weighted_z_in_the_order_of_the_keys():
    wanted = keys((0, 3), (0, 5), (0, 7), (2, 5))
    scores = np.array([0.5, -1.0, np.nan, 2.0], np.float32)
    found = RAW.of_run(run(), wanted, scores, last=3)
    assert found.dtype == np.float32
    assert found[[0, 1, 3]].tolist() == [1.5, -1.0, 6.0] and np.isnan(found[2])


def test_the_log_odds_of_log_probabilities_are_added():
    odds = [3.0, 0.25, 1.0]
    scores = np.array([math.log(o / (1 + o)) for o in odds], np.float32)
    blend = Blend(0.5, "log-probability")
    found = blend.of_run(run(), keys((0, 7), (0, 3), (0, 5)), scores, last=9)
    expected = [0.5 + math.log(3), 0.5 * 0.625 + math.log(0.25), 0.25]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_at_another_depth_it_is_what_that_depth_gives():
    table, wanted = run(), keys((0, 7), (0, 3))
    scores = np.array([0.5, -1.0], np.float32)
    whole = RAW.of_run(table, wanted, scores, last=4)
    found = RAW.at_another_depth(table, wanted, whole, last=4, to=2)
    assert found.tolist() == RAW.of_run(table, wanted, scores, last=2).tolist() == [4.5, -1.0]
    assert whole.tolist() == [4.5, 1.5] and found.dtype == np.float32


def test_scores_of_several_stages_in_a_querys_first_candidates_are_refused():
    mixed = run(stages=("mono", "mono", "bm25", "bm25", "bm25", "bm25", "mono"))
    wanted, scores = keys((0, 7)), np.array([1.0], np.float32)
    assert RAW.of_run(mixed, wanted, scores, last=2).tolist() == [5.0]
    with pytest.raises(InputError) as caught:
        RAW.of_run(mixed, wanted, scores, last=3)
    assert "1 queries (first: query_row 0) have scores of several stages (bm25, mono)" in str(
        caught.value
    )
