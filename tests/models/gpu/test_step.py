"""What becomes of the last hidden states, by hand."""

import torch

from raypipe.models.gpu.passes import FixedShape, vectors, whole
from raypipe.models.pooling import Finishing


def test_means_are_over_an_inputs_own_tokens_and_empty_inputs_do_no_harm():
    shape = FixedShape(16, 8)
    hidden = torch.arange(32.0).view(16, 2)
    edges = torch.tensor([0, 1, 4, *[9] * 15, 16, 16])[: shape.num_edges]
    plain = Finishing()
    mean = vectors(shape, finishing=plain)(hidden, edges)
    assert mean[:3].tolist() == [[0, 1], [4, 5], [12, 13]]
    assert mean.shape == (16, 2) and torch.equal(mean[3:], torch.zeros(13, 2))
    first = vectors(shape, finishing=Finishing(pooling="cls"))(hidden, edges)
    assert first[:3].tolist() == [[0, 1], [2, 3], [8, 9]]
    unit = vectors(shape, finishing=Finishing(normalise=True, pooling="cls"))(hidden, edges)
    torch.testing.assert_close(unit[1], torch.tensor([2.0, 3.0]) / 13**0.5)


def test_a_product_is_rounded_to_the_weights_dtype():
    x, weight, bias = torch.tensor([[1.00390625, 2.0]]), torch.eye(2), torch.tensor([0.0, 1.0])
    assert whole(x, (weight, bias)).tolist() == [[1.00390625, 3.0]]
    narrow = whole(x, (weight.bfloat16(), bias.bfloat16()))
    assert narrow.dtype == torch.bfloat16 and narrow.tolist() == [[1.0, 3.0]]
