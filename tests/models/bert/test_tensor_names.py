import torch
from model_parts import CONFIG

from raypipe.models.bert.family import FAMILY

FILES = FAMILY.files
canonical_names, saved_name = FILES.canonical_names, FILES.saved_name


def test_a_name_of_transformers_has_a_place_with_its_prefix_and_without():
    for name, place in [
        ("bert.encoder.layer.3.output.dense.bias", "encoder.layer.3.output.dense.bias"),
        ("pooler.dense.weight", "pooler.dense.weight"),
        ("classifier.weight", "classifier.weight"),
        ("cls.predictions.bias", None),
        ("bert.embeddings.position_ids", None),
        ("optimizer.state", None),
    ]:
        assert canonical_names([name]) == ({} if place is None else {place: name})
    both = ["pooler.dense.bias", "bert.pooler.dense.bias"]
    assert canonical_names(both) == {"pooler.dense.bias": "bert.pooler.dense.bias"}


def test_shapes_are_those_of_the_sizes():
    shapes = FILES.expected_shapes(CONFIG, num_labels=None)
    assert len(shapes) == 5 + 2 * 16
    assert shapes["embeddings.word_embeddings.weight"] == (9, 4)
    assert shapes["embeddings.position_embeddings.weight"] == (16, 4)
    assert shapes["embeddings.token_type_embeddings.weight"] == (2, 4)
    assert shapes["encoder.layer.1.intermediate.dense.weight"] == (6, 4)
    assert shapes["encoder.layer.1.intermediate.dense.bias"] == (6,)
    assert shapes["encoder.layer.1.output.dense.weight"] == (4, 6)
    assert shapes["encoder.layer.0.output.LayerNorm.weight"] == (4,)
    head = FILES.expected_shapes(CONFIG, num_labels=2)
    assert len(head) == len(shapes) + 4
    assert head["classifier.weight"] == (2, 4) and head["pooler.dense.weight"] == (4, 4)
    assert saved_name("pooler.dense.bias", head=False) == "pooler.dense.bias"
    assert saved_name("pooler.dense.bias", head=True) == "bert.pooler.dense.bias"
    assert saved_name("classifier.bias", head=True) == "classifier.bias"


def test_layers_that_get_an_update():
    at = "bert.encoder.layer.0.output"
    base = {
        "bert.embeddings.dense.weight": torch.zeros(2, 2),
        f"{at}.dense.weight": torch.zeros(3, 4), f"{at}.dense.bias": torch.zeros(3),
        f"{at}.LayerNorm.weight": torch.zeros(2), "bert.pooler.dense.weight": torch.zeros(4, 4),
        "classifier.weight": torch.zeros(2, 4),
    }  # fmt: skip
    assert FILES.linear_names(base, head=True) == [f"{at}.dense", "bert.pooler.dense"]
    assert FILES.linear_names(base, head=False) == [f"{at}.dense"]
