"""Weights of word pieces of a unicoil model, beside transformers and pyserini."""

import importlib.util
import json
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from json_files import changed
from kernel_stand_in import one_by_one
from safetensors.torch import load_file, save_file
from sparse_models import make_unicoil
from stage_inputs import parts_of

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.gpu.opening import FixedSettings

TEXTS = ["lease shard shard", "rank", "", "a query of a query of a passage a", "score merge model"]
SIDES = ("query", "passage")


@pytest.fixture
def folder(tmp_path):
    return make_unicoil(tmp_path / "unicoil", query_limit=62)


def weights_of(folder, texts, side, **settings):
    model = resolve_model(str(folder))
    (text,) = parts_of(model, texts)
    offsets = np.concatenate([[0], np.cumsum(text.counts)])
    return load_encoder(model, **settings).encode(text.flat, offsets, side=side)


def test_a_word_piece_of_a_passage_has_its_largest_weight_and_of_a_query_the_sum(folder):
    from transformers import AutoConfig, AutoTokenizer, BertModel

    tensors = load_file(folder / "model.safetensors")
    body = {n.removeprefix("bert."): t for n, t in tensors.items() if n.startswith("bert.")}
    own = BertModel(AutoConfig.from_pretrained(folder))
    own.load_state_dict(body)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = {side: weights_of(folder, TEXTS, side) for side in SIDES}
    several = 0
    for row, text in enumerate(TEXTS):
        inputs = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            states = own.eval()(**inputs).last_hidden_state[0]
        weights = (states @ tensors["tok_proj.weight"][0] + tensors["tok_proj.bias"]).relu()
        largest, total = np.zeros(66), np.zeros(66)
        assert weights[0] > 0  # that of [CLS], which is left out
        pairs = zip(inputs.input_ids[0].tolist()[1:], weights.tolist()[1:], strict=True)
        for token, weight in pairs:
            largest[token] = max(largest[token], weight)
            total[token] += weight
        np.testing.assert_allclose(found["passage"][row], largest, atol=1e-5)
        np.testing.assert_allclose(found["query"][row], total, atol=1e-5)
        several += (total > largest + 0.1).sum()
    assert several >= 4 and (found["passage"][:, 3] > 0).any()  # [SEP] is a word piece too


def test_pyserinis_encoders_give_the_same_weights_and_impacts_of_queries(folder, monkeypatch):
    package = ModuleType("pyserini.encode")  # the package itself starts Java
    package.DocumentEncoder = package.QueryEncoder = object
    monkeypatch.setitem(sys.modules, package.__name__, package)
    (place,) = importlib.util.find_spec("pyserini").submodule_search_locations
    spec = importlib.util.spec_from_file_location("their_unicoil", f"{place}/encode/_unicoil.py")
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    theirs.UniCoilEncoder.all_tied_weights_keys = {}  # which transformers 5 asks of a model
    documents = theirs.UniCoilDocumentEncoder(str(folder), device="cpu")
    queries = theirs.UniCoilQueryEncoder(str(folder))
    vocabulary = queries.tokenizer.get_vocab()

    def vector(named):
        out = np.zeros(66)
        for word, weight in named.items():
            out[vocabulary[word]] = weight
        return out

    for text, found in zip(TEXTS, weights_of(folder, TEXTS, "passage"), strict=True):
        np.testing.assert_allclose(found, vector(documents.encode([text])[0]), atol=1e-5)
    for text, found in zip(TEXTS, weights_of(folder, TEXTS, "query"), strict=True):
        assert np.array_equal(np.rint(found * np.float32(51.2)), vector(queries.encode(text)))


WAYS = {
    "batches": {},
    "fixed": {"fixed": FixedSettings(), "budget_tokens": 200},
    "kernel": {"fixed": FixedSettings(varlen=one_by_one), "budget_tokens": 200},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("side", SIDES)
def test_a_texts_weights_do_not_depend_on_those_beside_it_nor_on_the_pass(folder, way, side):
    texts = [*TEXTS, "lease rank " * 40] * 9  # the last one as long as an input may be
    together = weights_of(folder, texts, side, **WAYS[way])
    np.testing.assert_allclose(together, weights_of(folder, texts, side), atol=1e-5)
    for row, text in enumerate(texts[:6]):
        assert np.array_equal(weights_of(folder, [text], side, **WAYS[way])[0], together[row])
        assert np.array_equal(together[row], together[row + 6])
    if way != "batches":
        numerics = load_encoder(resolve_model(str(folder)), **WAYS[way]).numerics
        assert "unproven" not in numerics and "passes of 200 tokens" in numerics


def test_a_published_checkpoint_is_converted_with_its_head(folder, tmp_path):
    source = tmp_path / "source"
    make_unicoil(source)
    tensors = load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    (source / "raypipe.json").unlink()
    changed(source / "config.json", architectures=["UniCoilEncoder"], max_position_embeddings=64)
    torch.save(tensors, source / "pytorch_model.bin")
    settings = json.loads((folder / "raypipe.json").read_text())
    (source / "raypipe.json").write_text(json.dumps(settings))
    convert(source, tmp_path / "out")
    told = describe(str(tmp_path / "out"), None)
    assert (told.problems, told.missing) == ([], [])
    assert set(told.unused) == {"bert.pooler.dense.bias", "bert.pooler.dense.weight"}
    assert told.training.startswith("no: unicoil")
    for side in SIDES:
        expected = weights_of(folder, TEXTS, side)
        assert np.array_equal(weights_of(tmp_path / "out", TEXTS, side), expected)


def test_a_head_that_is_not_there_or_has_another_shape_is_refused(folder, tmp_path):
    tensors = load_file(folder / "model.safetensors")
    for change, told in (
        ({"tok_proj.bias": None}, r"tok_proj.bias, of .*expected shape \[1\], found no such"),
        (
            {"tok_proj.weight": torch.ones(2, 32)},
            r"weight, of .* shape \[1, 32\], found \[2",
        ),
    ):
        wrong = {n: t for n, t in (tensors | change).items() if t is not None}
        save_file(wrong, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(InputError, match=told):
            convert(folder, tmp_path / "out")
        assert any("tok_proj" in each for each in describe(str(folder), None).problems)
        with pytest.raises(InputError, match="tok_proj"):
            load_encoder(resolve_model(str(folder)))


def test_weights_in_fp16_are_computed_in_fp32(folder):
    halves = {n: t.half() for n, t in load_file(folder / "model.safetensors").items()}
    found = []
    for tensors in (halves, {n: t.float() for n, t in halves.items()}):
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        found.append(weights_of(folder, TEXTS, "passage"))
    assert np.array_equal(*found)


def test_its_preset_is_that_of_pyserini_and_its_scale_is_in_the_fingerprint(folder):
    (folder / "raypipe.json").unlink()
    own = resolve_model(str(folder), preset="unicoil").encoder
    assert (own.pooling, own.query_limit, own.passage_limit) == ("unicoil", 126, 510)
    assert own.impact_scale == 51.2 == own.to_json()["impact_scale"]
    (folder / "raypipe.json").write_text("{}")
    with pytest.raises(InputError, match="impact_scale: for pooling splade and unicoil only"):
        resolve_model(str(folder), preset="minilm", settings={"impact_scale": 2.0})
    for wrong in (0, -1, float("nan"), "a"):
        with pytest.raises(InputError, match="impact_scale: expected a number above 0 or null"):
            resolve_model(str(folder), preset="unicoil", settings={"impact_scale": wrong})
