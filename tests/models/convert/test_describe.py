"""What a model folder is said to be, by hand."""

import json
import shutil

import pytest
import torch
from json_files import changed, write
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder.adapters import shipped_folder
from raypipe.models.folder.files import tensor_shapes
from raypipe.models.folder.model_folder import load_weights, resolve_model
from raypipe.models.load import load_scorer


def test_an_encoder_is_described_with_what_it_leaves_unused(encoder):
    found = describe(str(encoder), None)
    assert (found.kind, found.problems, found.notes) == ("encoder", [], [])
    assert found.architecture == {
        "architectures": ["BertModel"], "model_type": "bert", "layers": 2, "hidden": 32,
        "heads": 4, "positions": 64,
        "vocabulary": json.loads((encoder / "config.json").read_text())["vocab_size"],
    }  # fmt: skip
    assert found.unused == ["pooler.dense.bias", "pooler.dense.weight"] and found.missing == []
    assert (found.weights["segment_rows"], found.weights["head_units"]) == (2, None)
    shapes = tensor_shapes(encoder / "model.safetensors")
    assert (found.weights["tensors"], found.weights["dtypes"]) == (len(shapes), ["F32"])
    assert found.weights["bytes"] == (encoder / "model.safetensors").stat().st_size
    assert found.tokenizer["file"] == "tokenizer.json" and found.made_by is None
    assert found.tokenizer["pieces"] == found.architecture["vocabulary"]
    with pytest.raises(InputError, match="no such model folder"):
        describe(str(encoder / "config.json"), None)


def test_what_a_folder_lacks_is_all_told(encoder):
    (encoder / "config.json").unlink()
    (encoder / "tokenizer.json").unlink()
    (encoder / "model.safetensors").unlink()
    (encoder / "b.pt").touch()
    (encoder / "c.txt").touch()
    with pytest.raises(InputError) as caught:
        resolve_model(str(encoder))
    assert describe(str(encoder), None).problems == list(caught.value.problems)
    assert [problem.partition("; ")[0] for problem in caught.value.problems] == [
        f"{encoder}: expected model.safetensors, found b.pt, pickles, which can run code",
        f"{encoder}: no config.json",
        f"{encoder}: no tokenizer.json or vocab.txt",
    ]
    (encoder / "vocab.txt").write_text("a\nb\n")
    (encoder / "config.json").write_text("{}")
    (encoder / "model.safetensors").write_bytes(b"no")
    found = describe(str(encoder), None)
    assert found.tokenizer["pieces"] > 2 and found.weights is None
    assert any("not a safetensors file" in problem for problem in found.problems)


def test_tensors_that_a_model_lacks_or_does_not_read_are_named_by_the_files_names(mono):
    weights = load_file(mono / "model.safetensors")
    weights["lost"] = torch.ones(1)
    bias = weights.pop("bert.pooler.dense.bias")
    save_file(weights, mono / "model.safetensors")
    found = describe(str(mono), None)
    assert (found.unused, found.missing) == (["lost"], ["bert.pooler.dense.bias"])
    assert found.weights["head_units"] == 2
    save_file({**weights, "bert.pooler.dense.bias": bias}, mono / "model.safetensors")
    changed(mono / "raypipe.json", total_limit=65, made_by={"x": 1})
    found = describe(str(mono), None)
    (problem,) = found.problems
    assert problem.startswith(f"{mono}: the settings allow 65 tokens, the model has 64 positions; ")
    assert found.made_by == {"x": 1} and found.unused == ["lost"]


def test_a_duos_own_third_row_is_no_problem(tiny_duo, tmp_path):
    folder = shutil.copytree(tiny_duo, tmp_path / "duo")
    changed(folder / "config.json", type_vocab_size=2)
    assert describe(str(folder), None).problems == []


@pytest.mark.parametrize("name", ["general-mono", "minilm-mono", "minilm-duo"])
def test_a_shipped_adapter_is_described_over_its_base(name):
    found = describe(name, None)
    assert found.problems == [] and found.kind == name.rpartition("-")[2]
    assert found.notes == ["an adapter for minilm, merged when it is loaded"]
    assert (found.unused, found.missing) == ([], []) and found.weights["rank"] > 0
    assert found.architecture["hidden"] == 384 and found.made_by["recipe"] == name
    model = resolve_model(name)
    tensors = load_weights(model)
    rows = len(tensors["bert.embeddings.token_type_embeddings.weight"])
    assert rows == (3 if name.endswith("duo") else 2)
    assert len(tensors["classifier.bias"]) == (1 if model.reranker.relevant_label is None else 2)
    assert load_scorer(model).conventions.kind == found.kind


def test_an_adapters_file_that_holds_no_tensors_is_named(tmp_path):
    adapter = shutil.copytree(shipped_folder("general-mono"), tmp_path / "one")
    file = adapter / "adapter_model.safetensors"
    file.write_bytes(b"no")
    found = describe(str(adapter), None)
    assert found.weights is None and len(found.problems) == 1
    assert found.problems[0].startswith(f"{file}: not a safetensors file")


def test_settings_that_do_not_fit_an_adapter_are_told(tmp_path):
    over = f"over {resolve_model('minilm').folder}"
    told = f"general-mono {over}: a duoBERT model has three segments, the checkpoint has 2 segment"
    assert [each[: len(told)] for each in describe("general-mono", "duobert").problems] == [told]
    adapter = shutil.copytree(shipped_folder("general-mono"), tmp_path / "one")
    changed(adapter / "raypipe.json", relevant_label=None)
    problems = [
        f"{adapter} {over}: classifier.weight: the head has 2 units, the settings expect one "
    ]
    found = describe(str(adapter), None).problems
    assert [problem.partition("(")[0] for problem in found[-1:]] == problems
    changed(adapter / "raypipe.json", relevant_label=1, total_limit=513)
    told = f"{adapter} {over}: the settings allow 513 tokens, the model has 512 positions; "
    assert [each[: len(told)] for each in describe(str(adapter), None).problems] == [told]


@pytest.mark.parametrize("kind", ["PROMPT_TUNING", "PREFIX_TUNING", "P_TUNING"])
def test_an_adapter_that_cannot_be_merged_is_told_by_its_kind(tmp_path, kind):
    adapter = tmp_path / "a"
    write(adapter / "adapter_config.json", {"peft_type": kind, "task_type": "SEQ_CLS"})
    write(adapter / "raypipe.json", {"base": "minilm"})
    with pytest.raises(InputError, match=f"peft_type {kind} puts learned vectors beside"):
        resolve_model(str(adapter))
    assert len(describe(str(adapter), None).problems) == 1


def test_an_adapter_needs_a_base_that_is_none_itself(tmp_path):
    adapter = tmp_path / "a"
    write(adapter / "adapter_config.json", {"r": 1})
    write(adapter / "raypipe.json", {})
    with pytest.raises(InputError, match="an adapter without its model"):
        resolve_model(str(adapter))
    assert any("without its model" in problem for problem in describe(str(adapter), None).problems)
    write(adapter / "raypipe.json", {"base": "minilm-mono"})
    with pytest.raises(InputError, match="its base minilm-mono is itself an adapter"):
        resolve_model(str(adapter))
    write(adapter / "raypipe.json", {"base": "minilm"})
    with pytest.raises(InputError, match="expected adapter_model.safetensors beside"):
        resolve_model(str(adapter))
