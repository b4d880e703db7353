"""Dense layers as sentence-transformers saves them, read and refused."""

import json
from hashlib import sha256

import numpy as np
import pytest
import torch
from json_files import changed, write
from safetensors.torch import save_file

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.folder.sentence_transformers import DenseFile
from raypipe.models.machine.device import ProductShape, settle_on
from raypipe.models.pooling import load_finishing
from raypipe.stages.in_memory import encode_texts

TANH, IDENTITY = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"


def layer(folder, name="2_Dense", *, inner=32, outer=8, biased=True, seed=1, **config):
    """A layer beside a tiny BERT, whose settings name it."""
    draw = torch.Generator().manual_seed(seed)
    tensors = {"linear.weight": torch.randn(outer, inner, generator=draw)}
    if biased:
        tensors["linear.bias"] = torch.randn(outer, generator=draw)
    own = {"in_features": inner, "out_features": outer, "bias": biased, "activation_function": TANH}
    write(folder / name / "config.json", {**own, **config})
    save_file(tensors, folder / name / "model.safetensors")
    body = json.loads((folder / "raypipe.json").read_text())
    changed(folder / "raypipe.json", dense=[*body.get("dense", ()), name])
    return folder


@pytest.fixture
def folder(tiny, tmp_path):
    return tiny.make_tiny_bert(tmp_path / "m")


def test_a_converted_folder_keeps_its_layers(folder, tmp_path):
    convert(layer(folder), tmp_path / "out")
    assert resolve_model(str(tmp_path / "out")).dense == resolve_model(str(folder)).dense != ()
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="2_Dense: expected model.safetensors"):
        convert(folder, tmp_path / "other")


def refused(folder):
    with pytest.raises(InputError) as told:
        resolve_model(str(folder))
    assert set(told.value.problems) <= set(describe(str(folder), None).problems)
    return list(told.value.problems)


def test_a_layer_is_read_with_its_hash_and_sizes(folder):
    layer(layer(folder), "3_Dense", inner=8, outer=5, biased=False, activation_function=IDENTITY)
    changed(folder / "raypipe.json", dense=["2_Dense", "normalise", "3_Dense"], truncate_dim=5)
    model = resolve_model(str(folder))
    first, second = (
        sha256((folder / name / "model.safetensors").read_bytes()).hexdigest()
        for name in ("2_Dense", "3_Dense")
    )
    assert model.dense == (
        DenseFile("2_Dense", "tanh", first, 32, 8),
        None,
        DenseFile("3_Dense", "identity", second, 8, 5),
    )
    assert model.conventions.dense == ("2_Dense", "normalise", "3_Dense")
    dense = model.forward_config()["dense"]
    assert dense == [
        {"activation": "tanh", "sha256": first},
        "normalise",
        {"activation": "identity", "sha256": second},
    ]
    finishing = load_finishing(model, {})
    assert [step and step.activation for step in finishing.steps] == ["tanh", None, "identity"]
    assert torch.equal(finishing.steps[2].weights[1], torch.zeros(5))
    assert load_encoder(model).dim == 5


def test_what_a_config_leaves_out_is_what_sentence_transformers_adds(folder):
    layer(folder)
    write(folder / "2_Dense" / "config.json", {"in_features": 32, "out_features": 8})
    (found,) = resolve_model(str(folder)).dense
    assert found.activation == "tanh"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"activation_function": "torch.nn.modules.activation.ReLU"},
         "activation_function: expected Identity or Tanh, found 'torch.nn.modules.act"),
        ({"activation_function": "mine.Tanh"}, "expected Identity or Tanh, found 'mine.Tanh'"),
        ({"bias": "yes"}, "bias: expected true or false, found 'yes'"),
        ({"use_residual": True}, "use_residual: expected false, found True"),
        ({"module_input_name": "token_embeddings"},
         "module_input_name: expected sentence_embedding or null, found 'token_embeddings'"),
        ({"module_output_name": "other"}, "module_output_name: expected sentence_embedding"),
        ({"in_features": None}, "in_features: expected a number of dimensions, found None"),
        ({"out_features": "8"}, "out_features: expected a number of dimensions, found '8'"),
        ({"out_features": 9}, "config.json says linear.bias [9], linear.weight [9, 32], the file "
         "has linear.bias [8], linear.weight [8, 32]"),
        ({"bias": False}, "config.json says linear.weight [8, 32], the file has linear.bias [8], "),
    ],
)  # fmt: skip
def test_a_layer_that_is_not_computed_is_refused_with_what_was_found(folder, config, told):
    (problem,) = refused(layer(folder, **config))
    assert told in problem and str(folder / "2_Dense") in problem


def test_a_pickle_is_refused_with_the_remedy_and_a_missing_file_or_folder_by_name(folder):
    layer(folder)
    file = folder / "2_Dense" / "model.safetensors"
    file.rename(folder / "2_Dense" / "pytorch_model.bin")
    (problem,) = refused(folder)
    assert "found pytorch_model.bin, a pickle" in problem
    assert f"SentenceTransformer('{folder}').save_pretrained(DIR)" in problem
    (folder / "2_Dense" / "pytorch_model.bin").unlink()
    assert refused(folder) == [f"{folder / '2_Dense'}: expected model.safetensors, found none"]
    for name in ("4_Dense", "../m", "config.json"):
        changed(folder / "raypipe.json", dense=[name])
        (problem,) = refused(folder)
        assert f"dense: expected normalise or a folder in it, found '{name}'" in problem


def test_sizes_that_do_not_follow_each_other_are_all_told_at_once(folder):
    layer(layer(folder, inner=31), "3_Dense", inner=9)
    first, second = refused(folder)
    assert "2_Dense: expected a layer of 32 dimensions, which it is given, found one of 31" in first
    assert "3_Dense: expected a layer of 8 dimensions, which it is given, found one of 9" in second


@pytest.mark.parametrize(("cut", "good"), [(8, True), (9, False)])
def test_a_cut_keeps_at_most_what_there_is(folder, cut, good):
    layer(folder)
    changed(folder / "raypipe.json", truncate_dim=cut)
    if good:
        assert load_encoder(resolve_model(str(folder))).dim == 8
    else:
        (problem,) = refused(folder)
        assert "truncate_dim: expected at most 8, the embeddings' dimensions, found 9" in problem


def test_a_layer_that_changed_since_is_not_computed_with(folder):
    model = resolve_model(str(layer(folder)))
    layer(folder, seed=2)
    with pytest.raises(InputError, match="2_Dense/model.safetensors: expected weights with SHA"):
        load_encoder(model)


def test_models_that_stay_open_are_told_apart_by_their_layers(folder):
    """Of one folder with the same body and names: only the layer's content differs."""
    first = encode_texts(resolve_model(str(layer(folder))), ["zebra"], side="query", device="cpu")
    layer(folder, seed=2)
    changed(folder / "raypipe.json", dense=["2_Dense"])
    other = encode_texts(resolve_model(str(folder)), ["zebra"], side="query", device="cpu")
    assert first.shape == other.shape == (1, 8) and not np.array_equal(first, other)


def test_the_products_of_layers_are_tested_for_effects_of_neighbouring_rows(folder, monkeypatch):
    tested = []

    def settled(device, shapes, **more):
        tested.append(shapes)
        return settle_on(device, shapes, **more)

    monkeypatch.setattr("raypipe.models.gpu.opening.settle_on", settled)
    load_encoder(resolve_model(str(folder)))
    load_encoder(resolve_model(str(layer(folder))))
    assert tested[1] - tested[0] == {ProductShape(32, 8)}


def test_embeddings_are_the_layers_of_the_pooled_states(folder):
    flat, offsets = np.array([7, 9, 11], np.uint16), np.array([0, 2, 3])
    plain = load_encoder(resolve_model(str(folder))).encode(flat, offsets, side="passage")
    weight, bias = load_finishing(resolve_model(str(layer(folder))), {}).steps[0].weights
    found = load_encoder(resolve_model(str(folder))).encode(flat, offsets, side="passage")
    expected = np.tanh(plain @ weight.numpy().T + bias.numpy())
    np.testing.assert_allclose(found, expected, atol=1e-5)
