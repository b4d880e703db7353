"""What is told of a checkpoint whose tensors are not those of its config.json and settings."""

from dataclasses import replace

import pytest
from model_parts import CONFIG, ENCODER, MONO

from raypipe.models.bert.family import FAMILY
from raypipe.models.folder.files import compare, first_of
from raypipe.models.folder.settings import units_of

SEGMENTS = "embeddings.token_type_embeddings.weight"
WORDS = "embeddings.word_embeddings.weight"
BIAS = "encoder.layer.1.output.dense.bias"


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_tensors_that_are_not_the_models_are_told(prefix):
    body = FAMILY.files.expected_shapes(CONFIG, num_labels=None)
    head = {"classifier.weight": (2, 4), "classifier.bias": (2,)}
    pooler = {"bert.pooler.dense.weight": (4, 4), "bert.pooler.dense.bias": (4,)}
    shapes = {f"{prefix}{name}": shape for name, shape in body.items()}

    def told(units=None, **changed):
        given = {name: shape for name, shape in {**shapes, **changed}.items() if shape}
        of_head = {1: replace(MONO, relevant_label=None), 2: MONO}
        return compare(given, CONFIG, of_head.get(units)).problems

    assert told() == told(**pooler, **head) == told(units=2, **pooler, **head) == []
    assert told(**{f"{prefix}{BIAS}": None}) == [f"the checkpoint lacks the tensor {prefix}{BIAS}"]
    assert told(**{f"{prefix}{SEGMENTS}": (3, 4)}) == [
        f"{prefix}{SEGMENTS}: expected shape [2, 4] from config.json, found [3, 4]"
    ]
    assert told(**{f"{prefix}{WORDS}": (9,)}) == [
        f"{prefix}{WORDS}: expected shape [9, 4] from config.json, found [9]"
    ]
    assert told(**{f"{prefix}encoder.layer.2.output.dense.bias": (4,)}) == [
        f"{prefix}encoder.layer.2.output.dense.bias: no such tensor in a model of the sizes in "
        "config.json"
    ]
    assert told(units=2, **pooler) == [
        f"the checkpoint lacks the tensor classifier.{each}: it has no head that scores pairs"
        for each in ("bias", "weight")
    ]
    one = {**pooler, "classifier.weight": (1, 4), "classifier.bias": (1,)}
    assert "classifier.weight: the head has 1 units, the settings expect two units" in str(
        told(units=2, **one)
    )
    (bias, weight) = told(units=1, **pooler, **head)
    assert bias == "classifier.bias: expected shape [1] from config.json, found [2]"
    assert "the head has 2 units, the settings expect one (relevant_label null)" in weight
    assert (units_of(ENCODER), units_of(MONO), units_of(replace(MONO, relevant_label=None))) == (
        None,
        2,
        1,
    )


def test_five_problems_are_told_and_the_others_counted():
    assert first_of([*"abcde"]) == [*"abcde"]
    assert first_of([*"abcdef"]) == [*"abcde", "and 1 more tensor"]
    assert first_of([*"abcdefg"]) == [*"abcde", "and 2 more tensors"]
