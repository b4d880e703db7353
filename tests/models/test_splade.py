"""Weights of word pieces of a splade model, beside transformers and sentence-transformers."""

import numpy as np
import pytest
import torch
from json_files import changed
from safetensors.torch import load_file, save_file
from sparse_models import make_splade
from stage_inputs import parts_of

from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder

TEXTS = ["lease shard", "rank", "a query of a passage", "score merge model token batch depth"]


@pytest.fixture
def folder(tmp_path):
    return make_splade(tmp_path / "splade")


def weights_of(folder, texts, *, device="cpu", **settings):
    model = resolve_model(str(folder))
    (text,) = parts_of(model, texts)
    offsets = np.concatenate([[0], np.cumsum(text.counts)])
    encoder = load_encoder(model, device=device, **settings)
    return encoder.encode(text.flat, offsets, side="passage")


@pytest.mark.slow
def test_a_sparse_encoder_of_sentence_transformers_gives_its_own_vectors(folder, tmp_path):
    from sentence_transformers import SparseEncoder
    from sentence_transformers.models import Transformer
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling

    for name, transformer in (
        ("older", MLMTransformer(str(folder))),
        ("saved", Transformer(str(folder), transformer_task="fill-mask")),
    ):
        modules = [transformer, SpladePooling(pooling_strategy="max")]
        theirs = SparseEncoder(modules=modules, device="cpu")
        expected = theirs.encode(TEXTS, convert_to_sparse_tensor=False).numpy()
        theirs.max_active_dims = 4
        theirs.save_pretrained(str(tmp_path / name))
        own = resolve_model(str(tmp_path / name)).encoder
        assert (own.pooling, own.passage_limit, own.max_terms) == ("splade", 62, 4)
        np.testing.assert_allclose(weights_of(tmp_path / name, TEXTS), expected, atol=1e-5)
        changed(tmp_path / name / "1_SpladePooling/config.json", activation_function="log1p_relu")
        theirs = SparseEncoder(str(tmp_path / name), device="cpu", max_active_dims=None)
        expected = theirs.encode(TEXTS, max_active_dims=66, convert_to_sparse_tensor=False)
        assert resolve_model(str(tmp_path / name)).encoder.pooling == "splade-log1p"
        np.testing.assert_allclose(weights_of(tmp_path / name, TEXTS), expected, atol=1e-5)
    assert not resolve_model(str(tmp_path / "saved")).by_library
    changed(tmp_path / "saved" / "config_sentence_transformers.json", similarity_fn_name="cosine")
    with pytest.raises(InputError, match="expected dot, found cosine"):
        resolve_model(str(tmp_path / "saved"))


def test_a_converted_folder_keeps_the_head_and_its_weights(folder, tmp_path):
    from transformers import BertForMaskedLM

    convert(folder, tmp_path / "out")
    assert not describe(str(tmp_path / "out"), None).problems
    np.testing.assert_array_equal(weights_of(tmp_path / "out", TEXTS), weights_of(folder, TEXTS))
    opened = BertForMaskedLM.from_pretrained(tmp_path / "out").state_dict()
    for name, tensor in BertForMaskedLM.from_pretrained(folder).state_dict().items():
        torch.testing.assert_close(opened[name], tensor, atol=0, rtol=0)


def test_the_weights_are_the_equation_over_transformers_logits(folder):
    """Of each word piece the largest over all tokens."""
    from transformers import AutoTokenizer, BertForMaskedLM

    theirs, tokenizer = (
        BertForMaskedLM.from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
    )
    for text, found in zip(TEXTS, weights_of(folder, TEXTS), strict=True):
        with torch.inference_mode():
            logits = theirs(**tokenizer(text, return_tensors="pt")).logits[0]
        expected = torch.log1p(logits.relu()).amax(dim=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert (expected > 0).sum() > 5


def test_a_texts_weights_do_not_depend_on_those_beside_it(folder):
    together = weights_of(folder, TEXTS)
    for row, text in enumerate(TEXTS):
        assert np.array_equal(weights_of(folder, [text])[0], together[row])


def test_a_model_without_the_head_or_with_settings_of_an_embedding_is_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    bias = tensors.pop("cls.predictions.bias")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="the checkpoint lacks the tensor cls.predictions.bias"):
        load_encoder(resolve_model(str(folder)))
    assert len(bias) == resolve_model(str(folder)).dim
    changed(folder / "raypipe.json", normalise=True, truncate_dim=3)
    with pytest.raises(InputError, match="normalise and truncate_dim: not for a sparse encoder"):
        resolve_model(str(folder))
    changed(
        folder / "raypipe.json", normalise=False, truncate_dim=None, pooling="mean", max_terms=3
    )
    with pytest.raises(InputError, match="max_terms: for a sparse encoder only"):
        resolve_model(str(folder))
    with pytest.raises(InputError, match="impact_scale: for a sparse encoder only"):
        resolve_model(str(folder), preset="minilm", settings={"impact_scale": 2.0})
    for wrong in (0, -1, float("nan"), "a"):
        with pytest.raises(InputError, match="impact_scale: expected a number above 0 or null"):
            resolve_model(str(folder), preset="splade", settings={"impact_scale": wrong})


def test_the_bias_of_a_tied_decoder_is_read(folder):
    tensors = load_file(folder / "model.safetensors")
    expected = weights_of(folder, TEXTS)
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert np.array_equal(weights_of(folder, TEXTS), expected)


def test_a_decoder_of_its_own_is_refused_also_where_nothing_is_proved(folder):
    tensors = load_file(folder / "model.safetensors")
    words = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.weight"] = words.clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    weights_of(folder, TEXTS)
    tensors["cls.predictions.decoder.weight"] = words + 1
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="decoder.weight: expected the tensor that it is tied to"):
        weights_of(folder, TEXTS)


def test_its_settings_are_shown_and_its_preset_has_every_setting(folder):
    found = describe(str(folder), None)
    assert (found.kind, found.problems, found.missing) == ("encoder", [], [])
    assert found.unused == [] and found.training == "yes"
    (folder / "raypipe.json").unlink()
    own = resolve_model(str(folder), settings={"passage_limit": 9}, preset="splade").encoder
    assert (own.pooling, own.query_limit, own.passage_limit, own.max_terms) == (
        "splade",
        254,
        9,
        None,
    )


@pytest.mark.slow
def test_a_real_model_with_the_first_berts_names_is_sentence_transformers_as_it_lies(raypipe_data):
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling

    folder = raypipe_data / "splade-tiny"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    model = resolve_model(str(folder), "splade")
    texts = [text for _, text in read_queries(raypipe_data / "nfcorpus" / "queries.jsonl.gz")][:48]
    texts += [" ".join(texts[start : start + 12]) for start in range(0, 48, 12)]
    (text,) = parts_of(model, texts)
    ends = np.append(text.starts, len(text.flat))
    found = load_encoder(model).encode(text.flat, ends, side="passage")
    theirs = SparseEncoder(modules=[MLMTransformer(str(folder)), SpladePooling()], device="cpu")
    theirs.max_seq_length = 256
    expected = theirs.encode_document(texts, convert_to_sparse_tensor=False).numpy()
    assert 20 < (found > 0).sum(axis=1).mean() < 300
    np.testing.assert_allclose(found, expected, atol=1e-5)
