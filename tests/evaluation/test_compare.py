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


def test_a_run_that_is_better_has_wins_and_a_positive_difference():
    qrels = qrels_of([("1", "a", 1), ("2", "a", 1), ("3", "a", 1)])
    ranks = {"b": (2, 1, 4), "o": (1, 1, 2)}
    runs = {
        name: table({str(q): [*"wxyz"[: rank - 1], "a"] for q, rank in enumerate(places, 1)})
        for name, places in ranks.items()
    }
    first, better = compare(runs, qrels, ["RR"], baseline="b").rows
    assert (better.wins, better.ties, better.losses) == (2, 1, 0)
    # (1 - 1/2 + 0 + 1/2 - 1/4) / 3
    assert better.difference.mean == pytest.approx(0.25)
    assert 0 <= better.difference.low < better.difference.high <= 0.5
    (worse, _) = compare(runs, qrels, ["RR"], baseline="o").rows
    assert (worse.wins, worse.ties, worse.losses) == (0, 1, 2)
    assert worse.difference.mean == pytest.approx(-0.25)
    assert first.difference is None and worse.difference.high <= 0


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
    assert unjudged(run, judged, 1) == 0 == unjudged(run, {}, 3)


def test_a_comparison_takes_the_cutoff_of_its_measure_or_ten():
    qrels = qrels_of([("1", "a", 1)])
    run = table({"1": ["a", *(f"x{n}" for n in range(19))]})
    found = compare({"r": run, "b": run}, qrels, ["RR@2", "AP", "R@20"], baseline="b")
    shares = {row.measure: row.unjudged for row in found.rows if row.run == "r"}
    assert shares == {"RR@2": 1 / 2, "AP": 9 / 10, "R@20": 19 / 20}
    assert found.family == 3 and [row.run for row in found.rows] == ["r", "b"] * 3
    base = next(row for row in found.rows if row.run == "b")
    assert (base.difference, base.wins, base.p_t, base.p_holm) == (None,) * 4
    with pytest.raises(InputError, match="NumRel.*: a count over all queries"):
        compare({"r": run, "b": run}, qrels, ["NumRel"], baseline="b")
