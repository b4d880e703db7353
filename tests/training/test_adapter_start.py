"""An adapter to start from, as peft saves it."""

import json

import peft
import pytest
import torch
import yaml
from transformers import AutoModelForSequenceClassification

from raypipe.config.load import load_training
from raypipe.driver.training.place import start_model
from raypipe.errors import InputError
from raypipe.storage.posix import PosixStorage
from raypipe.training.adapter_start import adapter_problems
from raypipe.training.job import Job
from raypipe.training.start import drawn_lines, trainee_of
from raypipe.training.trainee import updates_of

LAYERS = ["query", "key", "value", "bert.pooler.dense", "intermediate.dense", "output.dense"]


@pytest.fixture
def made(tiny_mono, tmp_path):
    """A function that saves peft's adapter of the settings; its folder and the model with it."""

    def make(**settings):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(tiny_mono)
        given = {"r": 2, "lora_alpha": 4, "target_modules": LAYERS, **settings}
        config = peft.LoraConfig(task_type="SEQ_CLS", init_lora_weights=False, **given)
        adapted = peft.get_peft_model(model, config)
        adapted.save_pretrained(tmp_path / "adapter")
        return tmp_path / "adapter", adapted.merge_and_unload().eval()

    return make


@pytest.fixture
def training(tiny_mono):
    def of(folder, **adapter):
        model = {
            "start": str(tiny_mono), "preset": "monobert", "query_limit": 12, "total_limit": 64,
            "adapter": {"rank": 2, "alpha": 4.0, "start": str(folder), **adapter},
        }  # fmt: skip
        body = {
            "format": 1, "name": "a", "model": model, "steps": 2, "batch": 1,
            "collections": {"c": {"format": "msmarco-v1", "input": "c.tsv"}},
            "train": {"c": {"collection": "c", "queries": "q", "triples": "t"}},
            "loss": {"name": "cross-entropy"}, "optimiser": {"warmup": 1},
        }  # fmt: skip
        return load_training(yaml.safe_dump(body))

    return of


def trainee(recipe, tmp_path):
    start = start_model(recipe)
    job = Job(recipe, start, (), (), PosixStorage(tmp_path / "stores"))
    return trainee_of(job, "cpu"), drawn_lines(recipe, start)


def test_a_training_begins_with_what_peft_merges(made, training, tmp_path):
    folder, merged = made()
    recipe = training(folder)
    assert adapter_problems(recipe) == []
    begun, lines = trainee(recipe, tmp_path)
    assert lines == []
    expected = merged.bert.encoder.layer[0].attention.self.query.weight
    updates = updates_of(begun.weights, begun.low_rank.scale)
    down, up = updates["bert.encoder.layer.0.attention.self.query"]
    base = AutoModelForSequenceClassification.from_pretrained(recipe.model.start)
    own = base.bert.encoder.layer[0].attention.self.query.weight + up @ down
    torch.testing.assert_close(own, expected)
    torch.testing.assert_close(begun.weights["classifier.weight"], merged.classifier.weight)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"use_rslora": True}, "use_rslora True"),
        ({"use_dora": True}, "use_dora True"),
        ({"alpha_pattern": {"query": 64}}, "alpha_pattern {'query': 64}"),
        ({"rank_pattern": {"query": 4}}, "rank_pattern {'query': 4}"),
        ({"bias": "lora_only"}, "bias lora_only"),
    ],
)
def test_what_is_no_plain_sum_is_refused_before_any_work(made, training, tmp_path, settings, told):
    folder, _ = made(**settings)
    (problem,) = adapter_problems(training(folder))
    assert problem.startswith(f"model.adapter.start: {folder}: expected a plain low-rank adapter, ")
    assert f"found {told}; merge it with peft" in problem
    with pytest.raises(InputError, match="found .*; merge it with peft"):
        trainee(training(folder), tmp_path)


def changed(folder, **settings):
    file = folder / "adapter_config.json"
    body = {**json.loads(file.read_text()), **settings}
    file.write_text(json.dumps({key: value for key, value in body.items() if value is not None}))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"init_lora_weights": "pissa_niter_4"}, "found init_lora_weights pissa_niter_4; merge it"),
        ({"peft_type": "LOHA"}, "found peft_type LOHA; merge it"),
        ({"r": None}, "expected an adapter of rank 2 and alpha 4.0, found rank None and alpha 4;"),
        ({"lora_alpha": 8}, "found rank 2 and alpha 8; write model.adapter: {rank: ..., alpha"),
    ],
)
def test_other_settings_of_peft_are_refused(made, training, settings, told):
    folder, _ = made()
    changed(folder, **settings)
    (problem,) = adapter_problems(training(folder))
    assert told in problem


def test_updates_of_what_is_not_trained_are_refused(made, training, tmp_path):
    folder, _ = made(target_modules=[*LAYERS, "word_embeddings"])
    with pytest.raises(InputError, match="found others, .*word_embeddings.*, whose effect"):
        trainee(training(folder), tmp_path)


def test_a_head_that_the_adapter_lacks_is_told(made, training, tmp_path):
    from safetensors.torch import load_file, save_file

    folder, _ = made()
    file = folder / "adapter_model.safetensors"
    save_file({n: t for n, t in load_file(file).items() if "classifier" not in n}, file)
    _, (line,) = trainee(training(folder), tmp_path)
    assert line.startswith(
        "start: the adapter lacks classifier.weight, classifier.bias: drawn from"
    )


def test_folders_without_an_adapter_are_refused_with_the_remedy(made, training, tiny_mono):
    folder, _ = made()
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    (problem,) = adapter_problems(training(folder))
    assert problem.endswith(
        "expected an adapter, found no adapter_model.safetensors; save it anew with peft's "
        "save_pretrained, which writes both"
    )
    (problem,) = adapter_problems(training(tiny_mono))
    assert problem.endswith("; a whole model is model.start, without model.adapter.start")
