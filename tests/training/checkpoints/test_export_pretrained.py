"""The folder that a pre-training leaves."""

from types import SimpleNamespace

import pytest
import torch
from masked_texts import make_pretrained
from safetensors.torch import load_file

from raypipe.models.folder.model_folder import resolve_model
from raypipe.training.export import pretrained_config, pretrained_tensors


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
