"""Comparisons of runs by hand."""

import pytest
from ranked_tables import RNG, qrels_of, table

from raypipe.errors import InputError
from raypipe.evaluation.compare import compare, unjudged
from raypipe.evaluation.significance import holm


def test_wins_ties_losses_and_missing_queries_by_hand():
    qrels = qrels_of([("1", "a", 1), ("2", "a", 1), ("3", "a", 1), ("4", "a", 1)])
    base = table({"1": ["a"], "2": ["x", "a"], "3": ["a"]})
    other = table({"1": ["x", "a"], "2": ["a"], "3": ["a"]})
    found = compare({"base": base, "other": other}, qrels, ["RR"], baseline="base")
    first, second = found.rows
    assert (first.mean, first.difference, first.p_holm) == (2.5 / 4, None, None)
    assert (second.mean, second.n) == (2.5 / 4, 4)
    assert (second.wins, second.ties, second.losses) == (1, 2, 1)
    assert second.difference.mean == 0 and second.p_randomisation == 1.0
    with pytest.raises(InputError, match="NumRel"):
        compare({"base": base, "other": other}, qrels, ["NumRel"], baseline="base")


def test_the_family_is_every_run_and_measure():
    qrels = qrels_of([(str(q), "a", 1) for q in range(8)])
    runs = {
        name: table({str(q): list(RNG.permutation(list("abcdef"))) for q in range(8)})
        for name in ("x", "y", "z")
    }
    found = compare(runs, qrels, ["RR", "P@2"], baseline="x")
    assert found.family == 4
    p = [row.p_randomisation for row in found.rows if row.p_t is not None]
    assert [row.p_holm for row in found.rows if row.p_t is not None] == holm(p)


def test_unjudged_counts_the_first_k_of_judged_queries():
    run = table({"1": ["a", "b", "c"], "2": ["a", "z"], "9": ["q"]})
    judged = {"1": {"a"}, "2": {"a", "z"}}
    assert unjudged(run, judged, 2) == 1 / 4
    assert unjudged(run, judged, 10) == 2 / 5
