"""One vector per sequence, by hand."""

import pytest
import torch

from raypipe.models.pooling import pool, pool_between

GROUPS = [(2, 1), (1, 3), (2, 2)]
ROWS = [[0], [1], [2, 3, 4], [5, 6], [7, 8]]
# Each dimension has its largest value at another token, and all are negative.
HIDDEN = torch.tensor([[-1.0 - (7 * t + 5 * d) % 9 for d in range(3)] for t in range(9)])
EXPECTED = {
    "mean": lambda own: own.mean(0),
    "cls": lambda own: own[0],
    "max": lambda own: torch.stack([column.max() for column in own.T]),
    "last": lambda own: own[-1],
}


@pytest.mark.parametrize("pooling", EXPECTED)
def test_pooling_is_by_sequence(pooling):
    found = pool(HIDDEN, GROUPS, pooling=pooling)
    assert found.tolist() == [EXPECTED[pooling](HIDDEN[own]).tolist() for own in ROWS]


@pytest.mark.parametrize("pooling", EXPECTED)
def test_pooling_between_edges_is_by_sequence_and_empty_ones_are_finite(pooling):
    edges = torch.tensor([0, 0, 1, 2, 5, 7, 9, 9, 9])
    found = pool_between(HIDDEN, edges, pooling=pooling)
    assert torch.isfinite(found).all() and found.shape == (8, 3)
    expected = torch.stack([EXPECTED[pooling](HIDDEN[own]) for own in ROWS])
    torch.testing.assert_close(found[1:6], expected)
