"""The masked-word heads of DistilBERT, RoBERTa, XLM-RoBERTa and CamemBERT, as splade uses them."""

import json

import numpy as np
import pytest
import torch
import transformers
from drawn_models import ENCODER, RENAMED, TEXTS, make, opened, theirs_of
from safetensors.torch import load_file, save_file
from stage_inputs import parts_of

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import load_weights
from raypipe.models.load import load_encoder
from raypipe.text.inputs import Inputs
from raypipe.training.start import pretraining_tensors
from raypipe.training.trainee import Trainee

SPLADE = {**ENCODER, "pooling": "splade"}


def weights_of(model, texts):
    (text,) = parts_of(model, texts)
    offsets = np.concatenate([[0], np.cumsum(text.counts)])
    return load_encoder(model).encode(text.flat, offsets, side="passage")


def equation(folder, theirs, text):
    """Of each word piece the largest log(1 + relu(logit)) over all tokens."""
    logits = theirs_of(folder, theirs, text, limit=64).logits[0]
    return torch.log1p(logits.relu()).amax(dim=0)


@pytest.mark.parametrize("kind", RENAMED)
def test_weights_of_words_are_the_equation_over_transformers_logits(tmp_path, kind):
    theirs = make(tmp_path, kind, words=True)
    texts = [text for text in TEXTS if text]
    found = weights_of(opened(tmp_path, **SPLADE), texts)
    for text, weights in zip(texts, found, strict=True):
        expected = equation(tmp_path, theirs, text)
        np.testing.assert_allclose(weights, expected, atol=1e-5)
        assert (expected > 0).sum() > 5


@pytest.mark.parametrize("kind", RENAMED)
def test_a_missing_tensor_of_the_head_is_named_and_half_precision_is_computed_in_single(
    tmp_path, kind
):
    make(tmp_path, kind, words=True)
    file, tensors = tmp_path / "model.safetensors", load_file(tmp_path / "model.safetensors")
    halves = {name: tensor.half() for name, tensor in tensors.items()}
    encoded = []
    for saved in (halves, {name: tensor.float() for name, tensor in halves.items()}):
        save_file(saved, file, metadata={"format": "pt"})
        encoded.append(weights_of(opened(tmp_path, **SPLADE), TEXTS))
    assert np.array_equal(*encoded)
    dense = "vocab_transform.bias" if kind == "distilbert" else "lm_head.dense.bias"
    del tensors[dense]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"the checkpoint lacks the tensor {dense}"):
        load_encoder(opened(tmp_path, **SPLADE))


@pytest.mark.parametrize("kind", RENAMED)
def test_the_logits_of_masked_words_and_their_gradients_are_transformers(tmp_path, kind):
    theirs = make(tmp_path, kind, words=True)
    model = opened(tmp_path, kind="pretrained", total_limit=64)
    tensors = pretraining_tensors(
        load_weights(model), model.config(), next_sentence=False, draw_missing=False, seed=0
    )
    trainee = Trainee(tensors.trained, model.config(), model.conventions, dropout=0.0)
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)(TEXTS[0])["input_ids"]
    first, size = 2 if "roberta" in kind or kind == "camembert" else 0, len(ids)
    rows = [np.array(ids), np.arange(first, first + size), np.zeros(size, np.int64)]
    places = torch.arange(1, size, 2)
    inputs = Inputs(*rows, np.array([size]))
    logits, _ = trainee.predictions(inputs, places, next_sentence=False)
    expected = theirs(torch.tensor([ids])).logits[0, places]
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    for each in (logits, expected):
        each.log_softmax(dim=1)[:, 7].mean().backward()
    for name, weight in trainee.weights.items():
        assert (weight.grad - theirs.get_parameter(name).grad).abs().max() < 1e-5, name
    embeddings = theirs.get_input_embeddings().weight
    assert embeddings.grad.abs().max() > 1e-3 and len(trainee.weights) > 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["distilbert", "roberta"])
def test_a_splade_model_is_trained_after_its_words_and_opens_in_transformers(
    small_recipe, train, tmp_path, kind
):
    """A phase that predicts masked words, and one that learns weights of them."""
    from small_training import phases_of

    make(tmp_path / "start", kind, words=True)
    unlimited = {"preset": None, "query_limit": None, "total_limit": None}
    path = small_recipe(model={"start": str(tmp_path / "start"), **unlimited})
    words = {
        "model": {"preset": "bert", "total_limit": 48},
        "loss": {"name": "masked-language-model"},
        "masking": {"next_sentence": False, "held_out": 8},
        "train": {"docs": {"collection": "docs"}},
        "validate": {"every": 2, "measure": "masked_word_loss"},
        "dev": {},
        "steps": 4,
    }
    splade = {"preset": "splade", "query_limit": 12, "passage_limit": 40}
    after = {"model": splade, "loss": {"name": "info-nce"}, "steps": 4, "validate": {"every": 2}}
    both = phases_of(path, words, after)
    with pytest.raises(InputError, match=f"next_sentence: expected model_type bert, found {kind}"):
        train(both, tmp_path / "none", "phases.0.masking.next_sentence=true")
    trained = train(both, tmp_path / "out")
    history = trained.summary["phases"]["part-1"]["history"]
    assert history[-1]["mean"] < history[0]["mean"]
    found = weights_of(resolved(trained.model), ["rank a shard", "lease"])
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(trained.model).eval()
    assert json.loads((trained.model / "config.json").read_text())["model_type"] == kind
    for text, weights in zip(["rank a shard", "lease"], found, strict=True):
        np.testing.assert_allclose(weights, equation(trained.model, theirs, text), atol=1e-5)


def resolved(folder):
    from raypipe.models.folder.model_folder import resolve_model

    return resolve_model(str(folder))
