"""Dense layers, the cut and length 1, by hand."""

import math

import pytest
import torch

from raypipe.models.pooling import Dense, Finishing

POOLED = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
WIDER = Dense((torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0.0, 1.0, -1.0])),
              "identity")  # fmt: skip
BENT = Dense((torch.eye(2), torch.zeros(2)), "tanh")


def test_nothing_follows_unless_it_is_said():
    assert Finishing().embeddings(POOLED).equal(POOLED) and Finishing().dim(2) == 2


def test_a_layer_has_its_bias_and_its_activation():
    assert Finishing((WIDER,)).embeddings(POOLED).tolist() == [[3, 5, 6], [0, 3, 1]]
    assert Finishing((WIDER,)).dim(2) == 3
    expected = [[math.tanh(x) for x in row] for row in POOLED.tolist()]
    torch.testing.assert_close(Finishing((BENT,)).embeddings(POOLED), torch.tensor(expected))


def test_layers_and_divisions_by_length_follow_each_other_in_order():
    found = Finishing((None, WIDER)).embeddings(POOLED)
    torch.testing.assert_close(found, torch.tensor([[0.6, 1.8, 0.4], [0.0, 2.0, 0.0]]))
    found = Finishing((WIDER, None)).embeddings(POOLED)
    torch.testing.assert_close(found[0], torch.tensor([3.0, 5.0, 6.0]) / math.sqrt(70))


@pytest.mark.parametrize(("normalise", "length"), [(False, 1), (True, math.sqrt(34))])
def test_the_cut_follows_the_layers_and_length_one_comes_last(normalise, length):
    finishing = Finishing((WIDER,), truncate_dim=2, normalise=normalise)
    assert finishing.embeddings(POOLED)[0].tolist() == pytest.approx([3 / length, 5 / length])
    assert finishing.dim(2) == 2


def test_the_layers_are_those_that_are_moved_and_tested():
    moved = Finishing((WIDER, None, BENT), truncate_dim=1, normalise=True).to("meta")
    assert [t.device.type for layer in moved.linears for t in layer] == ["meta"] * 4
    assert moved.steps[1] is None and (moved.truncate_dim, moved.normalise) == (1, True)
