"""Which queries are audited, and which candidates of theirs."""

import numpy as np

from raypipe import schema
from raypipe.stages.audit.sample import Limits, Scored, chosen


def rows(inputs, queries, most):
    return chosen(np.array(inputs), Limits(queries, most)).tolist()


def test_queries_are_evenly_spaced_among_those_with_inputs():
    assert rows([1, 0, 1, 1, 1, 1, 0, 1], 3, 100) == [0, 3, 5]  # of 0, 2, 3, 4, 5, 7
    assert rows([1, 0, 1], 50, 100) == [0, 2]
    assert rows([0, 0], 50, 100) == [] == rows([], 50, 100)


def test_there_are_as_many_as_the_inputs_allow_and_one_at_least():
    assert rows([5, 5, 5, 5], 4, 20) == [0, 1, 2, 3]
    assert rows([5, 5, 5, 5], 4, 19) == [0, 1, 2]
    assert rows([5, 5, 5, 5], 4, 11) == [0, 2]
    assert rows([5, 5, 5, 5], 4, 3) == [0]
    assert rows([9, 1, 1, 9], 2, 8) == [0], "whole queries: 9 inputs and 1 are 10"
    assert rows([5, 5], 0, 100) == []


def test_lines_of_other_stages_and_below_the_first_are_no_candidates(stores):
    lines = [(0, 4, 3.0), (0, 2, 2.0), (0, 1, 1.0)], [(1, 3, 5.0)]
    run = stores.run(*lines, scored_by="dense")
    own = Scored(run, "dense", first=2)
    assert own.counts(3).tolist() == [2, 1, 0]
    table = own.table(np.array([0, 1]))
    assert [column.tolist() for column in own.keys(table)] == [[0, 0, 1], [4, 2, 3], [-1] * 3]
    assert own.table(np.array([1]))["passage_row"].to_pylist() == [3]
    assert Scored(run, "dense").counts(2).tolist() == [3, 1]
    assert Scored(run, "mono").counts(2).tolist() == [0, 0]


def test_pairs_are_all_candidates(stores):
    table = [[0, 0], [1, 2], [2, 1], [0.5, 0.25]]
    pairs = stores.tables(schema.SCORES, table, ranges=[(0, 2)])
    own = Scored(pairs, "duo", pairs=True)
    assert own.counts(2).tolist() == [2, 0]
    assert [c.tolist() for c in own.keys(own.table(np.array([0])))] == [[0, 0], [1, 2], [2, 1]]
