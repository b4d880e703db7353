import json
from types import SimpleNamespace

import pytest
import torch
from masked_texts import make_pretrained
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder
from transformers import BertForSequenceClassification, BertModel

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import load_weights, resolve_model
from raypipe.training import export
from raypipe.training.export import (
    _copy_tokenizer,
    pretrained_config,
    pretrained_tensors,
    write_model,
)
from raypipe.training.start import starting_tensors
from raypipe.training.trainee import LowRank


def test_an_update_is_merged_as_its_product_times_the_scale():
    base = {"l.weight": torch.ones(2, 2), "x": torch.zeros(1), "y": torch.ones(1)}
    trained = {
        "l.lora_A.weight": torch.tensor([[1.0, 2.0]]),
        "l.lora_B.weight": torch.tensor([[3.0], [0.5]]),
        "x": torch.tensor([7.0]),
    }
    found = export.merged(base, trained, LowRank(rank=1, alpha=2))
    assert found["l.weight"].tolist() == [[7.0, 13.0], [2.0, 3.0]]
    assert sorted(found) == ["l.weight", "x", "y"] and found["x"].tolist() == [7.0]
    assert base["l.weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.slow
def test_a_tokenizer_that_changed_since_the_training_began_is_not_exported(job, folder, tmp_path):
    begun = job()
    out = tmp_path / "out"
    out.mkdir()
    _copy_tokenizer(begun.start, out)
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    file = folder / "tokenizer.json"
    file.write_bytes(file.read_bytes().replace(b'"zebra"', b'"zebru"'))
    with pytest.raises(InputError, match="that the training read"):
        _copy_tokenizer(begun.start, out)


@pytest.mark.parametrize(
    ("make", "opened"),
    [
        ("make_tiny_bert", BertModel),
        ("make_tiny_reranker", BertForSequenceClassification),
    ],
)
def test_a_trained_model_has_the_names_that_transformers_gives_it(tiny, tmp_path, make, opened):
    folder = getattr(tiny, make)(tmp_path / "start")
    of_one_unit = {
        "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"},
        "sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid",
        "problem_type": "regression",
    }
    whole = json.loads((folder / "config.json").read_text()) | of_one_unit
    (folder / "config.json").write_text(json.dumps(whole))
    start = resolve_model(str(folder))
    tensors = starting_tensors(
        load_weights(start), start.config(), start.conventions, num_units=2, seed=0
    )
    save_file({name: tensor + 1.0 for name, tensor in tensors.items()}, tmp_path / "payload")
    recipe = SimpleNamespace(
        model=SimpleNamespace(head=2, adapter=None, draw_missing=False),
        seed=0, name="r", steps=1, batch=1, accumulation=1, loss=SimpleNamespace(name="l"),
        model_dump=lambda **which: {},
    )  # fmt: skip
    job = SimpleNamespace(
        recipe=recipe,
        start=start,
        conventions=start.conventions,
        is_pretraining=False,
        spec=SimpleNamespace(fingerprint=lambda: "f"),
        phase=None,
        new_head=False,
    )
    write_model(job, tmp_path / "payload", tmp_path / "out", step=1, saw="nothing")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == [opened.__name__]
    if opened is BertForSequenceClassification:  # as the card says
        assert not of_one_unit.keys() & config.keys()
        assert isinstance(CrossEncoder(str(tmp_path / "out")).activation_fn, torch.nn.Identity)
    own = load_file(start.folder / "model.safetensors")
    kept = {name for name in own if opened is not BertModel or not name.startswith("pooler.")}
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert set(found) == kept
    assert all((found[name] == own[name] + 1.0).all() for name in kept)
    resolve_model(str(tmp_path / "out"))


@pytest.mark.parametrize("next_sentence", [True, False])
def test_what_is_not_trained_is_handed_on_and_the_config_names_the_class(
    tiny, tmp_path, next_sentence
):
    make_pretrained(tiny, tmp_path / "start")
    start = resolve_model(str(tmp_path / "start"))
    own = load_file(start.folder / "model.safetensors")
    recipe = SimpleNamespace(
        masking=SimpleNamespace(next_sentence=next_sentence), seed=0,
        model=SimpleNamespace(weights="read", draw_missing=False),
    )  # fmt: skip
    job = SimpleNamespace(recipe=recipe, start=start)
    names = [n for n in own if next_sentence or ("pooler" not in n and "seq_" not in n)]
    found = pretrained_tensors(job, {name: own[name] + 1 for name in names})
    assert set(found) == set(own)
    assert all(torch.equal(found[n], own[n] + (n in names)) for n in own)
    config = pretrained_config(job, found)
    assert config["architectures"] == ["BertForPreTraining"], "both heads are there"
    assert config["hidden_size"] == 32 and "id2label" not in config
    words = {name: tensor for name, tensor in found.items() if "seq_" not in name}
    assert pretrained_config(job, words)["architectures"] == ["BertForMaskedLM"]
