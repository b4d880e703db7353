"""The agreement of two ways of scoring, by hand."""

import pytest
from agreement import Agreement, agreement


def test_differences_orders_and_lists_by_hand():
    """Of three pairs of query 1 one is in the other order: tau is (2 - 1) / 3. Query 2 is equal."""
    own = {1: {"a": 3.0, "b": 2.0, "c": 1.0}, 2: {"a": 1.0, "b": 0.5}}
    other = {1: {"b": 2.5, "a": 2.25, "c": 1.0}, 2: {"a": 1.0, "b": 0.5}}
    found = agreement(own, other)
    assert found == Agreement(
        queries=2, scores=5, largest=0.75, tau=pytest.approx((1 / 3 + 1) / 2), changed=1, lacking=0
    )


def test_only_the_first_ten_count_as_changed():
    own = {1: {row: -float(row) for row in range(12)}}
    below = {1: {**{row: -float(row) for row in range(10)}, 11: -10.0, 10: -11.0}}
    within = {1: {**{row: -float(row) for row in range(9)}, 10: -9.0, 9: -10.0, 11: -11.0}}
    assert agreement(own, below).changed == 0 and agreement(own, below).tau < 1
    assert agreement(own, within).changed == 1


def test_what_one_way_lacks_is_counted_and_not_compared():
    found = agreement({1: {"a": 3.0, "b": 2.0}, 2: {"x": 1.0}}, {1: {"a": 3.5, "c": 9.0}})
    assert (found.queries, found.scores, found.largest, found.lacking) == (2, 1, 0.5, 3)
    assert found.tau is None and found.changed == 2


def test_equal_scores_have_no_tau():
    assert agreement({1: {"a": 1.0, "b": 1.0}}, {1: {"a": 1.0, "b": 0.5}}).tau is None
    assert agreement({}, {}) == Agreement(0, 0, 0.0, None, 0, 0)
