import pytest
from model_parts import CONFIG

from raypipe.models.bert.family import FAMILY

contradictions = FAMILY.files.contradictions
SEGMENTS = "embeddings.token_type_embeddings.weight"
WORDS = "embeddings.word_embeddings.weight"


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_tensors_of_another_model_than_the_configs_are_told(prefix):
    shapes = {
        f"{prefix}{n}": s for n, s in FAMILY.files.expected_shapes(CONFIG, num_labels=None).items()
    }
    shapes["classifier.weight"] = (2, 4)
    assert contradictions(CONFIG, shapes) == []
    words, bias = f"{prefix}{WORDS}", f"{prefix}encoder.layer.1.output.dense.bias"
    assert contradictions(CONFIG, {**shapes, words: (8, 4)}) == [
        f"vocab_size: config.json says 9, the checkpoint has 8 ({words} is [8, 4])"
    ]
    assert contradictions(CONFIG, {**shapes, words: (8,)}) == [
        f"{words}: expected shape [9, 4], found [8]"
    ]
    assert contradictions(CONFIG, {**shapes, bias: (5,)}) == [
        f"{bias}: expected shape [4], found [5]"
    ]
    lacking = {name: shape for name, shape in shapes.items() if name != bias}
    assert contradictions(CONFIG, lacking) == [f"the checkpoint lacks the tensor {bias}"]
    three = {**shapes, f"{prefix}{SEGMENTS}": (3, 4)}
    assert contradictions(CONFIG, three, any_segments=True) == []
    assert len(contradictions(CONFIG, three)) == 1
    without = {name: shape for name, shape in shapes.items() if SEGMENTS not in name}
    (problem,) = contradictions(CONFIG, without, any_segments=True)
    assert problem == f"the checkpoint lacks the tensor {prefix}{SEGMENTS}"
