import pytest
import torch
import torch.nn.functional as F
from model_parts import CONFIG, tensors

from raypipe.models.bert.family import FAMILY


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("units", [1, 2])
def test_a_head_is_a_tanh_pooler_and_a_classifier(prefix, units):
    weights = tensors(prefix, units)
    first = torch.randn(3, 4)
    pooled = torch.tanh(
        F.linear(
            first, weights[f"{prefix}pooler.dense.weight"], weights[f"{prefix}pooler.dense.bias"]
        )
    )
    expected = F.linear(pooled, weights["classifier.weight"], weights["classifier.bias"])
    found = FAMILY.head(weights, CONFIG)
    assert found.num_units == units and found.classifier[0].shape == (16, 4)
    torch.testing.assert_close(found.logits(first), expected, atol=1e-6, rtol=1e-5)
