import math

import numpy as np
import pytest
from rankings import ranking

from raypipe.training.negatives import Taught

RUN = ranking((0, 5, 1, 0.9), (0, 6, 2, 0.8), (0, 7, 3, 0.7), (2, 8, 1, 0.5), (2, 9, 2, 0.4))


def test_a_ranking_keeps_its_ranks_where_passages_are_left_out_or_cut():
    kept = RUN.without(np.array([6, 8]))
    assert kept.passage_rows.tolist() == [5, 7, 9] and kept.ranks.tolist() == [1, 3, 2]
    assert kept.query_rows.tolist() == [0, 0, 2]
    assert kept.scores.tolist() == pytest.approx([0.9, 0.7, 0.4])
    assert RUN.upto(2).passage_rows.tolist() == [5, 6, 8, 9]
    assert RUN.upto(1).ranks.tolist() == [1, 1] and len(RUN.upto(0).ranks) == 0


def test_a_teacher_tells_the_scores_of_pairs_and_nan_of_others():
    taught = Taught(ranking((2, 9, 1, 0.5), (0, 7, 1, 0.25), (0, 5, 2, 0.125)))
    assert taught.of(0, [5, 7]) == [0.125, 0.25] and taught.of(2, [9]) == [0.5]
    for query, passage in ((0, 9), (2, 5), (1, 7), (9, 9), (0, 0)):
        assert math.isnan(taught.of(query, [passage])[0])
    assert all(map(math.isnan, Taught(ranking()).of(0, [5, 6])))
    assert taught.of(0, []) == []
