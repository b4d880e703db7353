import pytest
from model_parts import CONFIG, tensors

from raypipe.errors import InputError
from raypipe.models.bert.family import FAMILY


def test_every_missing_tensor_of_a_body_or_head_is_named():
    weights = tensors("bert.", 2)
    assert len(FAMILY.read(weights, CONFIG).layers) == 2
    for name in ("encoder.layer.1.attention.self.key.bias", "embeddings.LayerNorm.weight"):
        weights.pop(f"bert.{name}")
    with pytest.raises(InputError) as caught:
        FAMILY.read(weights, CONFIG)
    assert len(caught.value.problems) == 2
    weights.pop("bert.pooler.dense.bias"), weights.pop("classifier.weight")
    with pytest.raises(InputError) as caught:
        FAMILY.head(weights, CONFIG, relevant_label=1)
    assert len(caught.value.problems) == 2
