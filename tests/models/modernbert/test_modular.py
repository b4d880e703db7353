"""A cross-encoder whose head lies in modules, as Ettin's, gives sentence-transformers' scores."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from drawn_models import POSITIONS, TEXTS, make
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import load_weights, misfits, resolve_model
from raypipe.models.folder.modules import ModelFiles, modular_head
from raypipe.stages.in_memory import score_texts
from raypipe.training.start import starting_tensors

NAMES = ("head.dense.weight", "head.norm.weight", "classifier.weight", "classifier.bias")
PAIRS = [(TEXTS[2], TEXTS[0]), (TEXTS[0], TEXTS[5]), (TEXTS[3], TEXTS[6]), (TEXTS[1], TEXTS[1])]


@pytest.fixture
def modular(tmp_path):
    """A function that saves one with the library and returns its folder and its model."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    def saved(pooling="cls", biases=(False, True), activation=None, kind="modernbert", **more):
        make(tmp_path / "drawn", kind, **more)
        norm, first = LayerNorm(32), activation or torch.nn.GELU()
        torch.nn.init.normal_(norm.norm.weight)
        torch.nn.init.normal_(norm.norm.bias)
        last = {"activation_function": torch.nn.Identity(), "module_output_name": "scores"}
        modules = [
            Transformer(str(tmp_path / "drawn")),
            Pooling(32, pooling_mode=pooling),
            Dense(32, 32, bias=biases[0], activation_function=first),
            norm,
            Dense(32, 1, bias=biases[1], **last),
        ]
        model = CrossEncoder(modules=modules, device="cpu")
        model.save_pretrained(str(tmp_path / "saved"))
        return tmp_path / "saved", model

    return saved


def ours(folder):
    """Scores of the pairs, and the model."""
    model = resolve_model(str(folder))
    each = np.arange(len(PAIRS))
    queries, passages = map(list, zip(*PAIRS, strict=True))
    return score_texts(model, queries, passages, (each, each, each), device="cpu"), model


@pytest.mark.parametrize(
    ("pooling", "biases"), [("cls", (False, True)), ("mean", (True, True)), ("cls", (True, False))]
)
def test_scores_are_the_librarys_by_the_folder_alone(modular, pooling, biases):
    folder, theirs = modular(pooling, biases)
    found, model = ours(folder)
    np.testing.assert_allclose(found, theirs.predict(PAIRS), atol=1e-5)
    assert not model.by_library and model.conventions.score == "probability"
    assert model.conventions.total_limit == POSITIONS
    told = describe(str(folder), None)
    assert told.problems == [] == told.missing and told.training == "yes"
    assert told.weights["head_units"] == 1


def test_a_training_starts_from_it_and_transformers_opens_what_is_saved(modular, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder, theirs = modular()
    model = resolve_model(str(folder))
    tensors = starting_tensors(
        load_weights(model), model.config(), model.conventions, num_units=1, seed=0
    )
    plain = tmp_path / "plain"
    plain.mkdir()
    save_file(tensors, plain / "model.safetensors", metadata={"format": "pt"})
    (plain / "config.json").write_text(json.dumps(model.config()))
    opened, loading = AutoModelForSequenceClassification.from_pretrained(
        plain, output_loading_info=True
    )
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = theirs.predict(PAIRS[:3], activation_fn=torch.nn.Identity())
    for pair, score in zip(PAIRS, expected, strict=False):
        with torch.no_grad():
            found = opened.eval()(**tokenizer(*pair, return_tensors="pt")).logits
        assert float(found) == pytest.approx(float(score), abs=1e-5)


@pytest.mark.parametrize("place", ["2_Dense", "3_LayerNorm", "4_Dense"])
def test_each_file_of_the_head_is_part_of_the_identity_and_is_checked(modular, place):
    folder, _ = modular()
    before, file = resolve_model(str(folder)), folder / place / "model.safetensors"
    tensors = load_file(file)
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, file)
    assert resolve_model(str(folder)).weights_sha256 != before.weights_sha256
    with pytest.raises(InputError, match="expected weights with SHA-256"):
        load_weights(before)
    save_file({"linear.weight": torch.zeros(3, 3)}, file)
    told = {
        "2_Dense": "head.dense.weight: expected shape [32, 32]",
        "3_LayerNorm": "the checkpoint lacks the tensor classifier.bias",
        "4_Dense": "classifier.weight: the head has 3 units",
    }
    assert any(told[place] in problem for problem in misfits(resolve_model(str(folder))))


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("2_Dense", {"activation_function": "torch.nn.modules.activation.Tanh"}),
        ("2_Dense", {"use_residual": True}),
        ("2_Dense", {"module_input_name": "token_embeddings"}),
        ("2_Dense", {"module_output_name": "other"}),
        ("4_Dense", {"activation_function": "torch.nn.modules.activation.Tanh"}),
        ("4_Dense", {"module_output_name": "sentence_embedding"}),
        ("4_Dense", {"in_features": 16}),
        ("4_Dense", {"out_features": 10**15}),  # a name for each would fill the memory
        ("3_LayerNorm", {"dimension": 16}),
        ("1_Pooling", {"pooling_mode": "max"}),
        ("", {"norm_eps": 1e-6}),
        ("", {"hidden_activation": "silu"}),
        ("", {"model_type": "mpnet"}),
    ],
)
def test_another_head_or_body_is_not_read_as_modernberts(modular, file, changed):
    folder, _ = modular()
    path = folder / file / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert modular_head(ModelFiles(folder), ModelFiles(folder).config) is None


def test_a_raypipe_json_has_the_last_word(modular):
    folder, theirs = modular()
    own = {**asdict(resolve_model(str(folder)).conventions), "score": "raw"}
    (folder / "raypipe.json").write_text(json.dumps(own))
    expected = theirs.predict(PAIRS, activation_fn=torch.nn.Identity())
    np.testing.assert_allclose(ours(folder)[0], expected, atol=1e-5)


@pytest.mark.parametrize("place", ["2_Dense", "3_LayerNorm", "4_Dense"])
def test_a_folder_that_lacks_weights_of_the_head_is_refused_by_their_name(modular, place):
    folder, _ = modular()
    (folder / place / "model.safetensors").unlink()
    with pytest.raises(InputError, match=f"{place}/model.safetensors: no such file; fetch the"):
        resolve_model(str(folder))
    (problem,) = describe(str(folder), None).problems
    assert f"{place}/model.safetensors: no such file" in problem
