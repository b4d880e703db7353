import json
import os
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import load_weights, open_tokenizer, resolve_model
from raypipe.models.load import load_encoder
from raypipe.text.tokenize import tokenize_batch


@pytest.fixture
def folder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "m")


@pytest.fixture
def vocabulary(folder):
    """The same model with a vocab.txt in the place of its tokenizer.json."""
    body = json.loads((folder / "tokenizer.json").read_text())
    pieces = sorted(body["model"]["vocab"], key=body["model"]["vocab"].get)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    return folder


def change(folder, **fields):
    path = folder / "config.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, **fields}))


def rewrite(path, data):
    """Other bytes, as many as before, at the same time of modification."""
    stat = path.stat()
    assert len(data) == stat.st_size
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def ids(folder, text):
    return open_tokenizer(resolve_model(str(folder))).encode(text, add_special_tokens=False).ids


def vectors(model, text="the zebra runs a lease"):
    pieces = tokenize_batch(open_tokenizer(model), [text], max_pieces=64)
    return load_encoder(model).encode(*pieces, side="passage")


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer_config.json", {"strip_accents": False}),
        ("tokenizer_config.json", {"tokenize_chinese_chars": False}),
        ("tokenizer_config.json", {"unk_token": "a"}),
        ("special_tokens_map.json", {"additional_special_tokens": ["zebra"]}),
        ("added_tokens.json", {"run": 100}),
    ],
)
def test_each_file_beside_a_vocabulary_that_changes_ids_changes_the_hash(vocabulary, file, body):
    text = "ZEBRA \u00e9a\u4e2d\u4e2d zebras runs"
    before, hash_before = ids(vocabulary, text), resolve_model(str(vocabulary)).tokenizer_sha256
    (vocabulary / file).write_text(json.dumps(body))
    assert ids(vocabulary, text) != before
    assert resolve_model(str(vocabulary)).tokenizer_sha256 != hash_before


def test_what_changes_no_id_changes_no_hash(vocabulary):
    before = resolve_model(str(vocabulary)).tokenizer_sha256
    body = {"model_max_length": 7, "do_lower_case": True, "name_or_path": "x"}
    (vocabulary / "tokenizer_config.json").write_text(json.dumps(body))
    assert resolve_model(str(vocabulary)).tokenizer_sha256 == before
    # The same tokenizer as one file, which cuts and fills besides: raypipe does neither.
    tokenizer = open_tokenizer(resolve_model(str(vocabulary)))
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding()
    tokenizer.save(str(vocabulary / "tokenizer.json"), pretty=False)
    assert resolve_model(str(vocabulary)).tokenizer_sha256 == before


@pytest.mark.fault(20, "a vocabulary with one other letter, of the same size and date, is refused")
def test_a_worker_refuses_another_vocabulary_of_the_same_size_and_time(folder):
    model = resolve_model(str(folder))
    file = folder / "tokenizer.json"
    rewrite(file, file.read_bytes().replace(b'"zebra"', b'"zebru"'))
    for opens in (open_tokenizer, load_encoder):
        with pytest.raises(InputError, match="same model folder") as caught:
            opens(model)
        assert str(file) in str(caught.value) and model.tokenizer_sha256 in str(caught.value)
    assert resolve_model(str(folder)).tokenizer_sha256 != model.tokenizer_sha256


@pytest.mark.fault(20, "weights that differ in one bit, of the same size and date, are refused")
def test_a_worker_refuses_other_weights_of_the_same_size_and_time(folder):
    model = resolve_model(str(folder))
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    rewrite(file, bytes(data))
    with pytest.raises(InputError, match="same model folder") as caught:
        load_weights(model)
    assert str(file) in str(caught.value) and model.weights_sha256 in str(caught.value)
    assert resolve_model(str(folder)).weights_sha256 != model.weights_sha256


def test_workers_compute_by_the_config_that_the_driver_read(folder):
    model = resolve_model(str(folder))
    before = vectors(model)
    change(folder, num_attention_heads=1)
    assert np.array_equal(vectors(model), before)
    assert not np.array_equal(vectors(resolve_model(str(folder))), before)


@pytest.fixture
def adapted(folder, tmp_path):
    """An adapter of some bytes over the tiny model; nothing here merges it."""
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    head = {"classifier.weight": torch.zeros(2, 32), "classifier.bias": torch.zeros(2)}
    tensors = {**load_file(folder / "model.safetensors"), **head}
    save_file(tensors, adapter / "adapter_model.safetensors")
    (adapter / "adapter_config.json").write_text('{"r": 8, "lora_alpha": 16.0}')
    body = {"kind": "mono", "query_limit": 12, "passage_limit": None, "total_limit": 64}
    body |= {"relevant_label": 1, "score": "raw", "base": str(folder)}
    (adapter / "raypipe.json").write_text(json.dumps(body))
    return adapter


@pytest.mark.parametrize("changed", ["adapter_model.safetensors", "adapter_config.json"])
def test_a_worker_refuses_another_adapter_of_the_same_size_and_time(adapted, changed):
    model = resolve_model(str(adapted))
    data = bytearray((adapted / changed).read_bytes())
    data[-2] ^= 1
    rewrite(adapted / changed, bytes(data))
    with pytest.raises(InputError, match="same model folder"):
        load_weights(model)


def test_an_adapters_identity_has_its_bases_config_tokenizer_and_weights(adapted, folder):
    model, base = resolve_model(str(adapted)), resolve_model(str(folder))
    assert model.forward_config() == base.forward_config()
    assert model.tokenizer_sha256 == base.tokenizer_sha256
    change(folder, num_attention_heads=2)
    assert resolve_model(str(adapted)).forward_config()["num_attention_heads"] == 2
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.bias"] += 1
    save_file(weights, folder / "model.safetensors")
    assert resolve_model(str(adapted)).weights_sha256 != model.weights_sha256
    change(folder, num_hidden_layers=1)
    with pytest.raises(InputError, match="no such tensor in a model of the sizes"):
        resolve_model(str(adapted))


def test_an_adapter_without_its_weights_or_with_a_broken_record_is_an_input_error(adapted):
    (adapted / "adapter_model.safetensors").unlink()
    with pytest.raises(InputError, match="adapter_model.safetensors"):
        resolve_model(str(adapted))
    (adapted / "raypipe.json").write_text("{")
    with pytest.raises(InputError, match=r"raypipe\.json: expected JSON"):
        resolve_model(str(adapted))
