import torch
from model_parts import CONFIG

from raypipe.models.bert.files import (
    canonical_name,
    canonical_names,
    expected_shapes,
    is_kernel,
    linear_names,
    saved_name,
)


def test_names_of_every_writer_are_read():
    for name, place in [
        ("bert.encoder.layer.3.output.dense.bias", "encoder.layer.3.output.dense.bias"),
        ("module.bert.pooler.dense.weight", "pooler.dense.weight"),
        ("embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"),
        ("bert.embeddings.LayerNorm.beta", "embeddings.LayerNorm.bias"),
        ("classifier.weight", "classifier.weight"),
        ("output_bias", "classifier.bias"),
        ("bert/embeddings/token_type_embeddings:0", "embeddings.token_type_embeddings.weight"),
        ("bert/encoder/layer_11/output/dense/kernel", "encoder.layer.11.output.dense.weight"),
        (
            "bert/encoder/layer_0/output/LayerNorm/gamma:0",
            "encoder.layer.0.output.LayerNorm.weight",
        ),
        ("bert/pooler/dense/bias", "pooler.dense.bias"),
        ("bert/pooler/dense/kernel/adam_m", None),
        ("global_step/x", None),
        ("cls.predictions.bias", None),
        ("bert.embeddings.position_ids", None),
        ("optimizer.state", None),
    ]:
        assert canonical_name(name) == place


def test_two_names_of_one_place_and_names_of_none_are_told():
    names = ["bert.pooler.dense.bias", "pooler.dense.bias", "x", "bert/pooler/dense/kernel"]
    found = canonical_names(names)
    assert found.twice == ["bert.pooler.dense.bias and pooler.dense.bias"]
    assert found.unused == ["x"] and set(found.found) == {
        "pooler.dense.bias",
        "pooler.dense.weight",
    }
    assert found.found["pooler.dense.weight"].transpose
    assert not found.found["pooler.dense.bias"].transpose
    assert is_kernel("a/kernel:0") and not is_kernel("a/bias") and not is_kernel("kernel")


def test_shapes_are_those_of_the_sizes():
    shapes = expected_shapes(CONFIG, num_labels=None)
    assert len(shapes) == 5 + 2 * 16
    assert shapes["embeddings.word_embeddings.weight"] == (9, 4)
    assert shapes["embeddings.position_embeddings.weight"] == (16, 4)
    assert shapes["embeddings.token_type_embeddings.weight"] == (2, 4)
    assert shapes["encoder.layer.1.intermediate.dense.weight"] == (6, 4)
    assert shapes["encoder.layer.1.intermediate.dense.bias"] == (6,)
    assert shapes["encoder.layer.1.output.dense.weight"] == (4, 6)
    assert shapes["encoder.layer.0.output.LayerNorm.weight"] == (4,)
    head = expected_shapes(CONFIG, num_labels=2)
    assert len(head) == len(shapes) + 4
    assert head["classifier.weight"] == (2, 4) and head["pooler.dense.weight"] == (4, 4)
    assert saved_name("pooler.dense.bias", head=False) == "pooler.dense.bias"
    assert saved_name("pooler.dense.bias", head=True) == "bert.pooler.dense.bias"
    assert saved_name("classifier.bias", head=True) == "classifier.bias"


def test_layers_that_get_an_update():
    base = {
        "bert.embeddings.x.weight": torch.zeros(2, 2), "bert.encoder.a.weight": torch.zeros(3, 4),
        "bert.encoder.a.bias": torch.zeros(3), "bert.encoder.LayerNorm.weight": torch.zeros(2, 2),
        "bert.encoder.one.weight": torch.zeros(2), "bert.pooler.dense.weight": torch.zeros(4, 4),
        "classifier.weight": torch.zeros(2, 4),
    }  # fmt: skip
    assert linear_names(base, head=True) == ["bert.encoder.a", "bert.pooler.dense"]
    assert linear_names(base, head=False) == ["bert.encoder.a"]
