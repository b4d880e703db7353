"""The cut and length 1, by hand."""

import pytest
import torch

from raypipe.models.pooling import Finishing

POOLED = torch.tensor([[3.0, 4.0, 1.0], [0.0, 2.0, 5.0]])


def test_nothing_follows_unless_it_is_said():
    assert Finishing().embeddings(POOLED).equal(POOLED) and Finishing().dim(3) == 3


@pytest.mark.parametrize(("normalise", "length"), [(False, 1), (True, 5)])
def test_length_one_comes_after_the_cut(normalise, length):
    finishing = Finishing(truncate_dim=2, normalise=normalise)
    assert finishing.embeddings(POOLED)[0].tolist() == pytest.approx([3 / length, 4 / length])
    assert finishing.dim(3) == 2
