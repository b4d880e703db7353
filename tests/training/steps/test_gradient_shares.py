from types import SimpleNamespace

import numpy as np
import pytest

from raypipe.training.steps import share_of


@pytest.mark.parametrize(("rank", "share"), [(0, [1, 0]), (1, [2, 3])])
def test_examples_are_dealt_out_by_length(rank, share):
    own = SimpleNamespace(rank=rank, world=2)
    assert share_of(np.array([5, 1, 2, 9]), own).tolist() == share
    assert (
        share_of(np.array([5, 1, 2, 9]), SimpleNamespace(rank=1 - rank, world=2), rank).tolist()
        == share
    )
