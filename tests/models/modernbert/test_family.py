"""ModernBERT's window, heads and passes of fixed shape give transformers' own numbers."""

import json

import numpy as np
import pytest
import torch
import transformers
from drawn_models import ENCODER, MONO, POSITIONS, TEXTS, make, opened, theirs_of
from kernel_stand_in import one_by_one
from safetensors.torch import load_file, save_file
from stage_inputs import parts_of

from raypipe.errors import InputError
from raypipe.models.family import FAMILIES
from raypipe.models.folder.discover import why_library
from raypipe.models.folder.model_folder import layouts_of, load_weights, open_tokenizer
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.gpu.opening import FixedSettings
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.modernbert.files import attention_of
from raypipe.models.packed import attend_by_length, groups_of
from raypipe.text.inputs import make_inputs, taken
from raypipe.text.tokenize import tokenize_batch
from raypipe.training.start import starting_tensors
from raypipe.training.trainee import Trainee

WAYS = [None, FixedSettings(), FixedSettings(varlen=one_by_one)]
FILES = FAMILIES["modernbert"].files


@pytest.mark.parametrize("window", [2, 8, 30, 128])
def test_states_of_lengths_around_the_window_are_those_of_transformers(tmp_path, window):
    """One batch of every length up to twice the window and a few more, three of each."""
    sizes = {"local_attention": window, "num_hidden_layers": 3, "norm_eps": 0.01}
    theirs = make(tmp_path, "modernbert", **sizes)
    model = opened(tmp_path, **ENCODER)
    body = model.family.read(load_weights(model), model.config())
    lengths = np.repeat(np.arange(1, min(window + 6, POSITIONS + 1)), 3)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, body.num_words, (int(lengths.sum()),), generator=draw)
    positions = torch.from_numpy(np.concatenate([np.arange(length) for length in lengths]))
    with torch.inference_mode():
        found = model.family.forward(
            body, ids, positions, 0, groups_of(lengths), attend_by_length
        ).split(lengths.tolist())
        for own, states in zip(ids.split(lengths.tolist()), found, strict=True):
            expected = theirs(own[None]).last_hidden_state[0]
            torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-5)


class Halved(torch.nn.Module):
    """In the place of a dropout, so that the place shows in the numbers."""

    def forward(self, x):
        return x / 2


def test_dropout_is_where_transformers_has_it(tmp_path):
    rates = dict.fromkeys(("attention_dropout", "mlp_dropout", "embedding_dropout"), 0.1)
    theirs = make(tmp_path, "modernbert", **rates)
    for name, module in [*theirs.named_modules()]:
        if isinstance(module, torch.nn.Dropout):
            theirs.set_submodule(name, Halved())
    model = opened(tmp_path, **ENCODER)
    body = model.family.read(load_weights(model), model.config())
    ids, places = torch.arange(5, 17), torch.arange(12)
    with torch.inference_mode():
        found = model.family.forward(
            body, ids, places, 0, [(1, 12)], attend_by_length, drop=lambda x: x / 2
        )
        expected = theirs(ids[None]).last_hidden_state[0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS, ids=["by length", "fixed", "kernel"])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("biased", [False, True])
def test_scores_are_those_of_transformers_with_either_pooling_and_bias(
    tmp_path, way, pooling, biased
):
    own = {"classifier_pooling": pooling, "classifier_bias": biased, "norm_eps": 0.01}
    theirs = make(tmp_path, "modernbert", units=1, **own)
    model = opened(tmp_path, **MONO | {"relevant_label": None})
    assert model.forward_config()["classifier_pooling"] == pooling
    (texts,) = parts_of(model, TEXTS)
    queries, passages = np.arange(len(TEXTS)), np.arange(len(TEXTS))[::-1]
    found = load_scorer(model, fixed=way, budget_tokens=200).score(
        taken(texts, queries), [taken(texts, passages)]
    )
    for score, query, passage in zip(found, queries, passages, strict=True):
        logits = theirs_of(tmp_path, theirs, TEXTS[query], TEXTS[passage], limit=POSITIONS).logits
        assert score == pytest.approx(float(logits), abs=1e-5)


@pytest.mark.parametrize("way", WAYS[1:], ids=["fixed", "kernel"])
def test_vectors_in_passes_of_fixed_shape_are_the_same(tmp_path, way):
    make(tmp_path, "modernbert", num_hidden_layers=3)
    model = opened(tmp_path, **ENCODER)
    pieces = tokenize_batch(open_tokenizer(model), TEXTS, max_pieces=512)
    expected = load_encoder(model).encode(*pieces, side="passage")
    encoder = load_encoder(model, fixed=way, budget_tokens=200)
    np.testing.assert_allclose(encoder.encode(*pieces, side="passage"), expected, atol=1e-5)
    assert "unproven" not in encoder.numerics


OLD = {"global_attn_every_n_layers": 2, "global_rope_theta": 500.0, "local_rope_theta": 70.0}
"""Keys of transformers before release 5."""


def test_a_config_of_transformers_4_is_the_same_model(tmp_path):
    thetas = {"full_attention": 500.0, "sliding_attention": 70.0}
    rotary = {kind: {"rope_type": "default", "rope_theta": t} for kind, t in thetas.items()}
    make(tmp_path, "modernbert", num_hidden_layers=3, rope_parameters=rotary)
    new = opened(tmp_path, **ENCODER).forward_config()
    path = tmp_path / "config.json"
    body = json.loads(path.read_text())
    body = {k: v for k, v in body.items() if k not in ("layer_types", "rope_parameters")} | OLD
    path.write_text(json.dumps(body))
    model = opened(tmp_path, **ENCODER)
    assert model.forward_config() == new
    assert new["attention"] == [[500.0, None], [70.0, 4], [500.0, None]]
    pieces = tokenize_batch(open_tokenizer(model), TEXTS[:1], max_pieces=512)
    theirs = transformers.AutoModel.from_pretrained(tmp_path).eval()
    states = theirs_of(tmp_path, theirs, TEXTS[0], limit=POSITIONS).last_hidden_state[0]
    found = load_encoder(model).encode(*pieces, side="passage")[0]
    np.testing.assert_allclose(found, states.mean(dim=0), atol=1e-5)


def test_what_a_config_does_not_state_is_transformers_default():
    theirs = transformers.ModernBertConfig(num_hidden_layers=7)
    rotary = theirs.rope_parameters
    expected = [
        (rotary[kind]["rope_theta"], None if kind == "full_attention" else theirs.sliding_window)
        for kind in theirs.layer_types
    ]
    assert attention_of({"num_hidden_layers": 7}) == expected
    assert attention_of(theirs.to_dict()) == expected


VARIANTS = [
    ({"hidden_activation": "silu"}, "hidden_activation: expected gelu, found 'silu'"),
    ({"classifier_activation": "relu"}, "classifier_activation: expected gelu, found 'relu'"),
    ({"norm_bias": True}, "norm_bias: expected False, found True"),
    ({"attention_bias": True}, "attention_bias: expected False, found True"),
    ({"mlp_bias": True}, "mlp_bias: expected False, found True"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling: expected None"),
    ({"head_dim": 16}, "head_dim: expected None, found 16"),
    ({"classifier_pooling": "max"}, "classifier_pooling: expected cls or mean, found 'max'"),
    (
        {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}},
        "rope_parameters: expected rope_type default, found default, yarn",
    ),
    (
        {"layer_types": ["full_attention", "chunked"]},
        "layer_types: expected full_attention or sliding_attention for each layer",
    ),
    ({"layer_types": ["full_attention"]}, "layer_types: expected full_attention or sliding"),
    (
        {"layer_types": None, "global_attn_every_n_layers": 0},
        "layer_types, rope_parameters or local_attention: ",
    ),
    ({"local_attention": 8.0}, "layer_types, rope_parameters or local_attention: "),
    ({"rope_parameters": 3}, "layer_types, rope_parameters or local_attention: "),
]


@pytest.mark.parametrize(("changed", "told"), VARIANTS)
def test_a_variant_is_not_packed_and_the_reason_is_told(tmp_path, changed, told):
    config = make(tmp_path, "modernbert").config.to_dict()
    assert FILES.own_problems(config) == [] == FILES.unpacked(config)
    assert why_library(ModelFiles(tmp_path), None) is None
    (problem,) = FILES.unpacked({**config, **changed})
    assert problem.startswith(told)
    assert problem in FILES.own_problems({**config, **changed})
    (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
    assert why_library(ModelFiles(tmp_path), None) == problem


@pytest.mark.parametrize("biased", [False, True])
def test_names_and_shapes_are_those_that_transformers_saves(tmp_path, biased):
    model = make(tmp_path, "modernbert", units=2, classifier_bias=biased)
    config = model.config.to_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    names = FILES.canonical_names([*shapes, "decoder.bias"])
    found = {place: shapes[name] for place, name in names.items()}
    assert found == FILES.expected_shapes(config, num_labels=2)
    assert {*names.values()} == {*shapes}
    assert FILES.trained_names(shapes, head=True) == {name: name for name in shapes}
    bare = [FILES.saved_name(name, head=False) for name in shapes]
    assert set(bare) == set(found)
    assert [FILES.saved_name(name, head=True) for name in bare] == list(shapes)
    assert {FILES.saved_name(n, head=True) for n in FILES.trained_names(bare, head=False)} == {
        name for name in shapes if name.startswith("model.")
    }


def test_a_tensor_that_no_such_model_has_is_named(tmp_path):
    make(tmp_path, "modernbert")
    file = tmp_path / "model.safetensors"
    save_file(load_file(file) | {"layers.1.attn.Wqkv.bias": torch.zeros(96)}, file,
              metadata={"format": "pt"})  # fmt: skip
    with pytest.raises(InputError, match=r"layers\.1\.attn\.Wqkv\.bias: no such tensor in a model"):
        opened(tmp_path, **ENCODER)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_an_encoders_gradients_are_those_of_transformers(tmp_path, pooling):
    theirs = make(tmp_path, "modernbert", num_hidden_layers=3)
    model = opened(tmp_path, **ENCODER | {"pooling": pooling})
    tensors = starting_tensors(
        load_weights(model), model.config(), model.conventions, num_units=1, seed=0
    )
    texts = [TEXTS[0], TEXTS[5]]
    inputs = make_inputs(parts_of(model, texts), layouts_of(model)["passage"])
    for recompute in (False, True):
        trainee = Trainee(
            tensors, model.config(), model.conventions, dropout=0.0, recompute=recompute
        )
        trainee.vectors(inputs).square().sum().backward()
        theirs.zero_grad()
        for text in texts:
            states = theirs_with_gradients(tmp_path, theirs, text)
            pooled = states.mean(dim=0) if pooling == "mean" else states[0]
            pooled.square().sum().backward()
        for name, parameter in theirs.named_parameters():
            ours = trainee.weights[f"model.{name}"].grad
            torch.testing.assert_close(ours, parameter.grad, atol=1e-5, rtol=1e-4)


def theirs_with_gradients(folder, theirs, text):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return theirs(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_rerankers_gradients_are_those_of_transformers(tmp_path, pooling):
    theirs = make(tmp_path, "modernbert", units=1, classifier_pooling=pooling)
    model = opened(tmp_path, **MONO | {"relevant_label": None})
    tensors = starting_tensors(
        load_weights(model), model.config(), model.conventions, num_units=1, seed=0
    )
    trainee = Trainee(tensors, model.config(), model.conventions, dropout=0.0)
    query, passage = [TEXTS[4]] * 2, [TEXTS[0], TEXTS[2]]
    inputs = make_inputs(parts_of(model, query, passage), layouts_of(model)["pair"])
    trainee.units(inputs).square().sum().backward()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for pair in zip(query, passage, strict=True):
        theirs(**tokenizer(*pair, return_tensors="pt")).logits.square().sum().backward()
    assert {n for n, p in theirs.named_parameters()} == {*trainee.weights}
    for name, parameter in theirs.named_parameters():
        ours = trainee.weights[name].grad
        torch.testing.assert_close(ours, parameter.grad, atol=1e-5, rtol=1e-4)


def test_a_head_that_is_missing_is_drawn_with_a_normalisation_of_ones(tmp_path):
    make(tmp_path, "modernbert")
    model = opened(tmp_path, **MONO)
    given = (load_weights(model), model.config(), model.conventions)
    with pytest.raises(InputError, match=r"lacks the tensor head\.dense\.weight"):
        starting_tensors(*given, num_units=2, seed=0)
    drawn = starting_tensors(*given, num_units=2, seed=0, draw_missing=True)
    assert drawn["head.dense.weight"].shape == (32, 32) and drawn["head.dense.weight"].std() > 0
    assert torch.equal(drawn["head.norm.weight"], torch.ones(32))
    assert {n for n in drawn if not n.startswith("model.")} == {*FILES.POOLER, *FILES.HEADS}


def test_splade_and_pre_training_are_left_to_other_families(tmp_path):
    make(tmp_path, "modernbert")
    assert why_library(ModelFiles(tmp_path), "splade") == "a masked-word head of modernbert"
    (tmp_path / "raypipe.json").write_text(json.dumps(ENCODER | {"pooling": "splade"}))
    assert why_library(ModelFiles(tmp_path), None) == "a masked-word head of modernbert"
    with pytest.raises(InputError, match="pre-training: expected model_type bert"):
        FAMILIES["modernbert"].pretraining  # noqa: B018
