from dataclasses import replace

from model_parts import CONFIG, ENCODER, MONO

from raypipe.models.bert.family import FAMILY
from raypipe.models.convert.checkpoint import (
    tensor_problems,
    units_of,
)


def test_tensors_that_are_not_the_models_are_told():
    shapes = FAMILY.files.expected_shapes(CONFIG, num_labels=2)
    assert tensor_problems(shapes, CONFIG, 2) == []
    assert tensor_problems(shapes, CONFIG, None) == []  # an encoder may have a head
    lacking = {name: shape for name, shape in shapes.items() if "classifier" not in name}
    assert [p.split(": ")[1] for p in tensor_problems(lacking, CONFIG, 2)] == [
        "it has no head that scores pairs"
    ] * 2
    one = {**shapes, "classifier.weight": (1, 4), "classifier.bias": (1,)}
    assert "the head has 1 units, the settings expect two units" in str(
        tensor_problems(one, CONFIG, 2)
    )
    assert "the head has 2 units, the settings expect one" in str(
        tensor_problems(shapes, CONFIG, 1)
    )
    more = {**shapes, "encoder.layer.2.output.dense.bias": (4,)}
    assert tensor_problems(more, CONFIG, 2) == [
        "encoder.layer.2.output.dense.bias: no such tensor in a model of the sizes in config.json"
    ]
    other = {**shapes, "embeddings.word_embeddings.weight": (8, 4)}
    assert (
        "expected shape [9, 4] from config.json, found [8, 4]"
        in tensor_problems(other, CONFIG, 2)[0]
    )
    assert (units_of(ENCODER), units_of(MONO), units_of(replace(MONO, relevant_label=None))) == (
        None,
        2,
        1,
    )
