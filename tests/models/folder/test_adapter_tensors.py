"""A weight that neither an adapter nor its base has is named and refused, never drawn."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder.adapter_tensors import PEFT
from raypipe.models.folder.adapters import merge
from raypipe.models.folder.loading import resolve_model
from raypipe.models.folder.opening import load_weights

POOLER = ("pooler.dense.bias", "pooler.dense.weight")
CLASSIFIER = ("classifier.weight", "classifier.bias")


@pytest.fixture
def adapter(encoder, tmp_path):
    """An adapter of rank 1 on one layer, with a classifier, over the encoder."""
    folder = tmp_path / "adapter"
    folder.mkdir()
    config = {"peft_type": "LORA", "task_type": "SEQ_CLS", "r": 1, "lora_alpha": 1,
              "lora_dropout": 0.0, "bias": "none", "base_model_name_or_path": None,
              "target_modules": ["layer.0.output.dense"], "modules_to_save": ["classifier"],
              "inference_mode": True}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))
    body = {"kind": "mono", "query_limit": 12, "passage_limit": None, "total_limit": 64}
    body |= {"relevant_label": 1, "score": "raw", "base": str(encoder)}
    (folder / "raypipe.json").write_text(json.dumps(body))
    layer = "bert.encoder.layer.0.output.dense"
    two = {"classifier.weight": torch.ones(2, 32), "classifier.bias": torch.ones(2)}
    tensors = {f"{layer}.lora_A.weight": torch.ones(1, 64),
               f"{layer}.lora_B.weight": torch.ones(32, 1), **two}  # fmt: skip
    save_file({PEFT + n: t for n, t in tensors.items()}, folder / "adapter_model.safetensors")
    return folder


def without(file, *names):
    kept = {n: t for n, t in load_file(file).items() if not n.endswith(names)}
    save_file(kept, file)


def test_an_adapter_over_a_whole_base_is_merged_with_the_bases_pooler(adapter, encoder):
    base = load_file(encoder / "model.safetensors")
    merged = load_weights(resolve_model(str(adapter)))
    for name in POOLER:
        assert torch.equal(merged[f"bert.{name}"], base[name])
    name = "encoder.layer.0.output.dense.weight"
    assert torch.equal(merged[f"bert.{name}"], base[name] + 1)
    found = describe(str(adapter), None)
    assert found.missing == [] and found.problems == []


def test_an_adapter_over_a_base_without_a_pooler_is_refused_and_shown(adapter, encoder):
    without(encoder / "model.safetensors", *POOLER)
    told = r"lacks the tensor bert\.pooler\.dense\.bias"
    with pytest.raises(InputError, match=told) as error:
        resolve_model(str(adapter))
    assert len(error.value.problems) == 2 and str(encoder) in error.value.problems[0]
    base = load_file(encoder / "model.safetensors")
    config = json.loads((encoder / "config.json").read_text())
    with pytest.raises(InputError, match=told):
        merge(base, config, adapter)
    found = describe(str(adapter), None)
    assert found.missing == [f"bert.{name}" for name in POOLER]
    assert any("pooler.dense.weight" in problem for problem in found.problems)


@pytest.mark.parametrize("name", [*CLASSIFIER, "lora_A.weight", "lora_B.weight"])
def test_a_tensor_that_the_adapter_lacks_is_refused_and_shown(adapter, encoder, name):
    without(adapter / "adapter_model.safetensors", name)
    config = json.loads((encoder / "config.json").read_text())
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        merge(load_file(encoder / "model.safetensors"), config, adapter)
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        resolve_model(str(adapter))
    found = describe(str(adapter), None)
    assert [each for each in found.missing if each.endswith(name)] and found.problems
