"""Names and sizes of the families with BERT's layers: those that transformers saves."""

import pytest
from drawn_models import POSITIONS, RENAMED, ROBERTAS, make

from raypipe.models.family import family_of
from raypipe.models.folder.files import compare


@pytest.fixture
def saved(tmp_path, request):
    """(family's files, config.json, shapes by saved name) of a reranker."""
    model = make(tmp_path, request.param, units=2)
    files = family_of({"model_type": request.param}).files
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    return files, model.config.to_dict(), shapes


every = pytest.mark.parametrize("saved", RENAMED, indirect=True)


@every
def test_expected_shapes_are_those_of_transformers(saved):
    files, config, shapes = saved
    names = files.canonical_names(shapes)
    expected = files.expected_shapes(config, num_labels=2)
    assert {place: shapes[name] for place, name in names.items()} == expected
    assert {*names.values()} == {*shapes}
    body = files.expected_shapes(config, num_labels=None)
    assert set(expected) - set(body) == {*files.POOLER, *files.HEADS}


@every
def test_names_go_to_a_training_and_back(saved):
    files, _, shapes = saved
    trained = files.trained_names(shapes, head=True)
    assert trained == {name: name for name in shapes}
    places = [files.saved_name(name, head=False) for name in shapes]
    assert [files.saved_name(place, head=True) for place in places] == list(shapes)
    body = files.trained_names(places, head=False)
    assert set(shapes) - set(body.values()) == {*files.POOLER, *files.HEADS}


@every
def test_other_heads_poolers_and_buffers_are_unused(saved):
    files, *_ = saved
    others = ["lm_head.dense.weight", "pooler.dense.weight", "embeddings.position_ids", "qa.bias"]
    assert files.canonical_names([*others, "x.classifier.weight"]) == {}


@every
def test_sizes_stand_under_berts_keys(saved):
    files, config, _ = saved
    found = files.as_bert(config)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    assert {key: found[key] for key in sizes} == sizes and found["intermediate_size"] == 64
    assert files.num_positions(config) == POSITIONS
    decisive = files.decisive(config)
    assert decisive["model_type"] == config["model_type"] and decisive["hidden_size"] == 32
    robust = config["model_type"] in ROBERTAS
    assert decisive["layer_norm_eps"] == (1e-5 if robust else 1e-12)


@every
def test_a_config_of_transformers_has_no_problem_and_each_size_is_asked_for(saved):
    files, config, shapes = saved
    assert files.own_problems(config) == [] == compare(shapes, config).problems
    distil = config["model_type"] == "distilbert"
    for key in ("dim", "n_layers") if distil else ("hidden_size", "num_hidden_layers"):
        problems = files.own_problems({**config, key: None})
        assert f"{key}: expected a count" in problems[0] and "found None" in problems[0]
    heads, width = ("n_heads", "dim") if distil else ("num_attention_heads", "hidden_size")
    told = files.own_problems({**config, heads: 5})
    assert told == [f"{heads}: expected a divisor of {width} 32, found 5"]
    act = "activation" if distil else "hidden_act"
    assert files.own_problems({**config, act: "relu"}) == [f"{act}: expected gelu, found 'relu'"]


@pytest.mark.parametrize("saved", ROBERTAS, indirect=True)
def test_other_positions_or_segments_than_robertas_are_refused(saved):
    files, config, _ = saved
    told = files.own_problems({**config, "pad_token_id": 0, "type_vocab_size": 2})
    assert told == ["pad_token_id: expected 1, found 0", "type_vocab_size: expected 1, found 2"]


@every
def test_tensors_of_another_model_are_named_as_the_checkpoint_does(saved):
    _, config, shapes = saved

    def problems(shapes=shapes, **changed):
        return compare(shapes, {**config, **changed}).problems

    layers = "n_layers" if config["model_type"] == "distilbert" else "num_hidden_layers"
    second = [name for name in shapes if ".1." in name]
    *first, rest = problems(**{layers: 1})
    assert {each.partition(":")[0] for each in first} <= {*second} and len(first) == 5
    assert first[0].endswith(": no such tensor in a model of the sizes in config.json")
    assert rest == f"and {len(second) - 5} more tensors"
    lacking = f"the checkpoint lacks the tensor {min(second).replace('.1.', '.2.')}"
    assert problems(**{layers: 3})[0] == lacking
    word = next(name for name in shapes if "word_embeddings" in name)
    rows, width = shapes[word]
    shown = f"{word}: expected shape [7, {width}] from config.json, found [{rows}, {width}]"
    assert problems(vocab_size=7) == [shown]
    bias = next(name for name in second if name.endswith("bias"))
    without = {name: shape for name, shape in shapes.items() if name != bias}
    assert problems(without) == [f"the checkpoint lacks the tensor {bias}"]


@every
def test_linear_layers_are_those_that_peft_adapts(saved, tmp_path):
    import torch

    files, _, shapes = saved
    tensors = {name: torch.zeros(shape) for name, shape in shapes.items()}
    with_head = files.linear_names(tensors, head=True)
    body = files.linear_names(tensors, head=False)
    assert len(body) == 2 * 6 and set(with_head) - set(body) == {
        files.POOLER[0].removesuffix(".weight")
    }


@every
def test_a_converted_config_says_which_class_opens_it(saved):
    files, config, _ = saved
    config["rope"] = None  # no default: of some keys transformers would read another value
    body = files.converted_config(config, segment_rows=1, num_labels=2)
    assert "rope" in body and body["rope"] is None
    assert body["architectures"] == [files.architecture(head=True)] == config["architectures"]
    assert body["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
    encoder = files.converted_config(config, segment_rows=1, num_labels=None)
    assert encoder["architectures"] == [files.architecture(head=False)]
