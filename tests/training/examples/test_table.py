import numpy as np

from raypipe.training import examples as table
from raypipe.training.examples import Examples, distinct, pair_keys


def test_pairs_have_keys_in_the_order_of_query_then_passage():
    assert pair_keys(np.array([1]), np.array([3])).tolist() == [(1 << 32) + 3]
    assert pair_keys(np.array([0, 2], np.int32), np.array([2**31 - 1, 0])).tolist() == [
        2**31 - 1,
        1 << 33,
    ]


def test_distinct_values_and_pairs_are_sorted_whatever_is_held_at_once(monkeypatch):
    rows, second = np.array([5, 1, 5, 3, 1]), np.array([1, 2, 1, 0, 9])
    for at_once in (1, 2, 100):
        monkeypatch.setattr(table, "ROWS_AT_ONCE", at_once)
        assert distinct(rows).tolist() == [1, 3, 5]
        expected = [(1 << 32) + 2, (1 << 32) + 9, 3 << 32, (5 << 32) + 1]
        assert distinct(rows, second).tolist() == expected


def test_known_pairs_are_looked_up_elementwise():
    table = Examples(np.zeros(1, np.int32), np.zeros((1, 2), np.int32))
    assert (table.num_examples, table.num_passages) == (1, 2)
    asked = np.array([[0, 1], [1, 2]]), np.array([[3, 3], [4, 9]])
    assert not table.are_relevant(*asked).any()
    keys = np.sort(pair_keys(np.array([1, 0]), np.array([4, 3])))
    known = Examples(table.query_rows, table.passage_rows, relevant=keys)
    assert known.are_relevant(*asked).tolist() == [[True, False], [True, False]]
