"""Values of config.json at their bounds, and tensors of another model, by hand."""

import pytest

from raypipe.errors import InputError
from raypipe.models.bert.config import decisive, own_problems
from raypipe.models.bert.contradictions import contradictions
from raypipe.models.bert.tensor_names import expected_shapes
from raypipe.models.folder.config_checks import initializer_range, tensor_shapes

CONFIG = {
    "model_type": "bert", "hidden_act": "gelu", "hidden_size": 4, "intermediate_size": 6,
    "max_position_embeddings": 16, "num_attention_heads": 2, "num_hidden_layers": 2,
    "type_vocab_size": 2, "vocab_size": 9, "layer_norm_eps": 1e-12,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"layer_norm_eps": 0}, ["layer_norm_eps: expected a number between 0 and 1, found 0"]),
        ({"layer_norm_eps": 1}, ["layer_norm_eps: expected a number between 0 and 1, found 1"]),
        ({"layer_norm_eps": True}, ["layer_norm_eps: expected a number"]),
        ({"layer_norm_eps": 0.999}, []),
        ({"initializer_range": True}, ["initializer_range: expected a number, found True"]),
        ({"initializer_range": 1}, []),
        ({"num_attention_heads": 3}, ["num_attention_heads: expected a divisor of hidden_size 4"]),
        ({"num_attention_heads": 4}, []),
        ({"num_attention_heads": 3, "layer_norm_eps": 2}, ["layer_norm_eps: "]),
        ({"num_hidden_layers": 1000}, []),
        ({"num_hidden_layers": 1001}, ["num_hidden_layers: expected a count of 1,000 at most"]),
        ({"hidden_size": 0}, ["hidden_size: expected a count, found 0"]),
        ({"vocab_size": 1}, []),
    ],
)
def test_values_of_a_config_at_their_bounds(fields, told):
    found = own_problems({**CONFIG, **fields})
    assert len(found) == len(told)
    assert all(problem.startswith(words) for problem, words in zip(found, told, strict=True))


def test_what_a_config_must_name_and_what_it_may_leave_out():
    without = {n: v for n, v in CONFIG.items() if n not in ("model_type", "hidden_act")}
    assert own_problems(without) == [
        "model_type: expected bert, found none",
        "hidden_act: expected gelu, found none",
    ]
    assert initializer_range({}) == 0.02 and initializer_range({"initializer_range": 1}) == 1.0
    found = decisive({**CONFIG, "layer_norm_eps": 1, "dropout": 0.1})
    assert found["position_embedding_type"] == "absolute" and "dropout" not in found
    assert type(found["layer_norm_eps"]) is float and len(found) == 11
    relative = decisive({**CONFIG, "position_embedding_type": "other"})
    assert relative["position_embedding_type"] == "other"


WORDS = "embeddings.word_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_tensors_of_another_model_than_the_configs_are_told(prefix):
    shapes = {f"{prefix}{n}": s for n, s in expected_shapes(CONFIG, num_labels=None).items()}
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


def test_a_file_that_is_no_safetensors_is_an_input_error(tmp_path):
    file = tmp_path / "model.safetensors"
    for make in (lambda: file.write_bytes(b"no"), file.unlink, file.mkdir):
        make()
        with pytest.raises(InputError, match="not a safetensors file"):
            tensor_shapes(file)
