import numpy as np
from ranked_tables import run

from raypipe.ranking.fuse import Ranking, alternate, average, fuse_tables, reciprocal_rank, weighted


def ranking(rows, scores):
    return Ranking(np.array(rows, np.int64), np.array(scores, np.float32))


def test_rules_of_no_runs_and_of_empty_ones():
    empty = ranking([], [])
    assert len(alternate([empty, empty]).rows) == 0
    assert len(reciprocal_rank([empty, empty]).rows) == 0
    assert len(weighted([empty, empty], weights=[1, 1]).rows) == 0
    assert len(average([empty, empty]).rows) == len(average([]).rows) == 0
    found = weighted([empty, ranking([5, 6], [3, 1])], weights=[2, 4])
    assert found.rows.tolist() == [5, 6] and found.scores.tolist() == [4.0, 0.0]


def test_rules_with_their_default_settings():
    one = ranking([5, 6, 7], [3, 2, 1])
    found = reciprocal_rank([one])
    assert found.scores.tolist() == [np.float32(1 / (60 + r)) for r in (1, 2, 3)]
    assert alternate([one]).scores.tolist() == [1.0, 0.5, np.float32(1 / 3)]
    assert [
        len(rule([one, one], depth=2).rows) for rule in (alternate, reciprocal_rank, average)
    ] == [2] * 3
    fused = fuse_tables([run((0, 1, 1, 2.0)), run((0, 1, 1, 2.0))], method="rrf", scored_by="f")
    assert fused["score"].to_pylist() == [np.float32(2 / 61)]
