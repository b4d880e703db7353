"""z of examples, by hand."""

import math

import numpy as np
import pytest
from rankings import ranking

from raypipe.training.examples import Examples
from raypipe.training.negatives import Taught, with_first_stages

FIRST = ranking((0, 5, 1, 9.0), (0, 6, 2, 6.0), (0, 7, 3, 5.0), (2, 5, 1, 3.0), (2, 6, 2, 3.0))
SECOND = ranking((0, 7, 1, 0.5), (0, 5, 2, 0.25), (2, 5, 1, 8.0))


def examples(*lines):
    return Examples(
        np.array([query for query, _ in lines], np.int32),
        np.array([passages for _, passages in lines], np.int32),
    )


def found(table, *runs, last=10, none=False, seed=1):
    return with_first_stages(table, runs, last=last, none=none, seed=seed)


def test_z_is_from_0_to_1_over_the_querys_list_and_0_beyond_it():
    table = examples((0, [6, 5]), (0, [7, 8]), (1, [5, 6]), (2, [6, 8]))
    z = found(table, FIRST)
    assert z.first_stage.tolist() == [[0.25, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    assert z.first_stage.dtype == np.float32 and z.passage_rows is table.passage_rows
    near = found(table, FIRST, last=2)
    assert near.first_stage[:2].tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_each_example_has_one_of_the_choices_drawn_by_seed_and_query_alone():
    table = examples(*[(0, [5, 7])] * 600, *[(2, [5, 8])] * 600)
    z = found(table, FIRST, SECOND, none=True).first_stage
    of_first, of_query = z[:600].tolist(), z[600:].tolist()
    choices = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    counts = [of_first.count(choice) for choice in choices]
    assert sum(counts) == 600 and all(150 < count < 250 for count in counts)
    # In both runs passage 5 has 1 for query 2, so a third has 0.
    assert 150 < of_query.count([0.0, 0.0]) < 250
    none = [[each == [0.0, 0.0] for each in own] for own in (of_first, of_query)]
    assert none[0] != none[1]
    alone = found(examples(*[(2, [5, 8])] * 600), FIRST, SECOND, none=True).first_stage
    assert alone.tolist() == of_query
    other = found(table, FIRST, SECOND, none=True, seed=2).first_stage
    assert other.tolist() != z.tolist()
    without = found(table, FIRST, SECOND).first_stage[:600].tolist()
    assert {tuple(each) for each in without} == {(1.0, 0.0), (0.0, 1.0)}


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
