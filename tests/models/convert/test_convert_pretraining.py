"""Checkpoints of BERT's pre-training, as Google and transformers save them, keep both heads."""

import json

import checkpoints as made
import numpy as np
import pytest
import torch
from conversions import IDS, SEGMENTS
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForPreTraining

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe

HEAD = "cls.predictions.transform.dense.weight"


@pytest.fixture(scope="module")
def source():
    torch.manual_seed(3)
    model = BertForPreTraining(BertConfig(**made.SIZES, type_vocab_size=2)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1 and "LayerNorm.weight" not in name:
                weight.normal_()
    return model


@torch.inference_mode()
def predictions(model):
    found = model(IDS, token_type_ids=SEGMENTS)
    return found.prediction_logits, found.seq_relationship_logits


def hub(folder, source):
    """pytorch_model.bin as the first releases of transformers named it, with a tied decoder."""
    made.write_vocabulary(folder, config={"do_lower_case": True, "model_max_length": 512})
    made.write_config(folder, **source.config.to_dict())
    older = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    state = {}
    for name, tensor in source.state_dict().items():
        for new, old in older.items():
            name = name.replace(new, old)
        state[name] = tensor.clone()
    save_file(state, folder / "model.safetensors")
    return folder


def google(folder, source):
    """bert_config.json, vocab.txt and an .npz of TensorFlow's variables."""
    made.write_vocabulary(folder, config={"do_lower_case": True})
    fields = {**made.SIZES, "hidden_act": "gelu", "type_vocab_size": 2}
    (folder / "bert_config.json").write_text(json.dumps(fields))
    arrays = {}
    for name, tensor in source.state_dict().items():
        array, plain = tensor.numpy(), name.replace(".layer.", ".layer_").replace(".", "/")
        stem, _, last = plain.rpartition("/")
        if "decoder" in name:
            continue
        if name.startswith("cls.seq_relationship"):
            arrays[f"{stem}/output_{'weights' if last == 'weight' else 'bias'}"] = array
        elif name == "cls.predictions.bias":
            arrays["cls/predictions/output_bias"] = array
        elif stem.endswith("LayerNorm"):
            arrays[f"{stem}/{'gamma' if last == 'weight' else 'beta'}"] = array
        elif stem.endswith("_embeddings"):
            arrays[stem] = array
        elif last == "weight":
            arrays[f"{stem}/kernel"] = np.ascontiguousarray(array.T)
        else:
            arrays[plain] = array
    np.savez(folder / "model.npz", **arrays)
    return folder


@pytest.mark.parametrize("make", [hub, google])
def test_both_heads_are_kept_and_predict_the_same(tmp_path, source, make):
    out = tmp_path / "out"
    convert(make(tmp_path / "in", source), out, preset="bert")
    opened, told = BertForPreTraining.from_pretrained(out, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    for own, theirs in zip(predictions(opened.eval()), predictions(source), strict=True):
        torch.testing.assert_close(own, theirs, atol=1e-5, rtol=0)
    found = describe(str(out), None)
    assert (found.kind, found.unused, found.missing, found.problems) == ("pretrained", [], [], [])
    assert json.loads((out / "config.json").read_text())["architectures"] == ["BertForPreTraining"]


def test_a_head_that_is_missing_is_named_by_convert_and_show(tmp_path, source):
    folder = hub(tmp_path / "in", source)
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if n != HEAD}, folder / "model.safetensors")
    with pytest.raises(InputError, match=f"lacks the tensor {HEAD}: it has no head that predicts"):
        convert(folder, tmp_path / "out", preset="bert")
    plain = {n.replace("gamma", "weight").replace("beta", "bias"): t for n, t in tensors.items()}
    save_file({n: t for n, t in plain.items() if n != HEAD}, folder / "model.safetensors")
    found = describe(str(folder), "bert")
    assert found.missing == [HEAD] and any(HEAD in problem for problem in found.problems)
    found = describe(str(folder), "monobert")
    assert found.missing == ["classifier.bias", "classifier.weight"]
    other = {**plain, "cls.predictions.decoder.weight": plain["cls.predictions.decoder.weight"] + 1}
    save_file(other, folder / "model.safetensors")
    with pytest.raises(InputError, match="decoder.weight: expected the tensor that it is tied to"):
        convert(folder, tmp_path / "out", preset="bert")
