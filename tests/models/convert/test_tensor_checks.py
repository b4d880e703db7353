from dataclasses import replace

import pytest
from model_parts import CONFIG, DUO, ENCODER, MONO

from raypipe.models.bert.family import FAMILY
from raypipe.models.convert.checkpoint import (
    limit_problems,
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


@pytest.mark.parametrize(
    ("rows", "choice", "good"),
    [(2, "zero", True), (2, "copy", True), (2, None, False), (3, None, True), (3, "copy", False),
     (4, None, True), (1, None, False), (1, "zero", False)],
)  # fmt: skip
def test_a_third_segment_row_is_added_to_two_and_to_no_other_number(rows, choice, good):
    duo = replace(DUO, segment_row=choice)
    assert (limit_problems(duo, CONFIG, rows) == []) is good


@pytest.mark.parametrize(
    ("conventions", "rows", "told"),
    [
        (replace(ENCODER, passage_limit=14), 2, []),
        (replace(ENCODER, passage_limit=15), 2, ["17 tokens, the model has 16"]),
        (replace(ENCODER, query_limit=15), 2, ["17 tokens, the model has 16"]),
        (ENCODER, 1, ["segment 1, the model has 1"]),
        (replace(ENCODER, passage_segment=0, query_segment=1), 1, ["segment 1"]),
        (replace(ENCODER, passage_segment=0), 1, []),
        (ENCODER, 0, []),
        (MONO, 2, []),
        (MONO, 1, ["segment 1"]),
        (replace(MONO, total_limit=17), 2, ["17 tokens"]),
    ],
)
def test_limits_and_segments_beyond_the_model_are_told(conventions, rows, told):
    found = limit_problems(conventions, CONFIG, rows)
    assert len(found) == len(told) and all(a in b for a, b in zip(told, found, strict=True))
