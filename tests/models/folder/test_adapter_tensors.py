"""An adapter's sum with its base is peft's; a weight that neither has is refused, never drawn."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder import adapters
from raypipe.models.folder.adapters import PEFT, SHIPPED
from raypipe.models.folder.model_folder import load_weights, resolve_model

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


def test_an_adapter_as_peft_saves_it_is_told_the_settings_with_which_it_is_read(adapter, encoder):
    (adapter / "raypipe.json").unlink()
    (problem,) = describe(str(adapter), None).problems
    given = json.loads(problem[problem.index("{") : problem.index("}") + 1])
    file = adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    halved = {n: t[:1] if "classifier" in n else t for n, t in tensors.items()}
    save_file({n: t.clone() for n, t in halved.items()}, file)
    body = {**given, "base": str(encoder), "total_limit": 64}
    (adapter / "raypipe.json").write_text(json.dumps(body))
    assert describe(str(adapter), None).problems == []
    assert load_weights(resolve_model(str(adapter)))["classifier.weight"].shape == (1, 32)


def test_an_adapter_over_a_base_without_a_pooler_is_refused_and_shown(adapter, encoder):
    without(encoder / "model.safetensors", *POOLER)
    told = r"lacks the tensor bert\.pooler\.dense\.bias"
    with pytest.raises(InputError, match=told) as error:
        resolve_model(str(adapter))
    assert len(error.value.problems) == 2
    assert f"{adapter} over {encoder}: the checkpoint" in error.value.problems[0]
    found = describe(str(adapter), None)
    assert found.missing == [f"bert.{name}" for name in POOLER]
    assert any("pooler.dense.weight" in problem for problem in found.problems)


@pytest.mark.parametrize("name", [*CLASSIFIER, "lora_A.weight", "lora_B.weight"])
def test_a_tensor_that_the_adapter_lacks_is_refused_and_shown(adapter, encoder, name):
    without(adapter / "adapter_model.safetensors", name)
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        resolve_model(str(adapter))
    found = describe(str(adapter), None)
    assert any(name in problem for problem in found.problems)
    if name in CLASSIFIER:
        assert found.missing == [name]


def test_an_adapter_without_a_classifier_has_that_of_its_base(adapter, encoder):
    file = encoder / "model.safetensors"
    head = {"classifier.weight": torch.full((2, 32), 3.0), "classifier.bias": torch.zeros(2)}
    save_file({f"bert.{name}": t for name, t in load_file(file).items()} | head, file)
    changed_head = load_weights(resolve_model(str(adapter)))
    assert changed_head["classifier.weight"].eq(1).all()
    without(adapter / "adapter_model.safetensors", *CLASSIFIER)
    saved_by_library = {"modules_to_save": None, "task_type": None}
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**settings, **saved_by_library}))
    merged = load_weights(resolve_model(str(adapter)))
    assert {name: merged[name].tolist() for name in head} == {
        n: t.tolist() for n, t in head.items()
    }
    name = "bert.encoder.layer.0.output.dense.weight"
    assert torch.equal(merged[name], load_file(file)[name] + 1)
    assert describe(str(adapter), None).missing == []


def test_an_encoders_adapter_of_sentence_transformers_is_to_be_merged_too(adapter):
    """Its adapter_config.json names no task, and no raypipe.json names its base."""
    (adapter / "raypipe.json").unlink()
    kinds = ("Transformer", "Pooling")
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{kind}" * n,
         "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]  # fmt: skip
    (adapter / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="encoder's adapter .modules.json has a Pooling.; merge"):
        resolve_model(str(adapter))


def test_an_encoders_adapter_is_to_be_merged_first(adapter):
    file = adapter / "adapter_config.json"
    body = json.loads(file.read_text())
    file.write_text(json.dumps({**body, "task_type": "FEATURE_EXTRACTION"}))
    with pytest.raises(InputError, match="found an encoder's adapter .* merge it first: in Python"):
        resolve_model(str(adapter))


def by_peft(monkeypatch, model):
    """The weights that peft makes of an adapter and its base."""
    with monkeypatch.context() as patch:
        patch.setattr(adapters, "plain_sum", lambda *given: None)
        return load_weights(model)


def assert_same_bits(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype == torch.float32, name
        assert torch.equal(found[name], tensor), name


@pytest.fixture
def no_peft(monkeypatch):
    """Whoever asks peft to merge fails."""
    monkeypatch.setattr(adapters, "merged_by_peft", None)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_included_adapters_are_summed_to_the_bits_of_pefts_merge(name, monkeypatch, no_peft):
    model = resolve_model(name)
    summed = load_weights(model)
    monkeypatch.undo()
    assert_same_bits(summed, by_peft(monkeypatch, model))
    base = load_file(model.folder / "model.safetensors")
    held = {name: base[name.removeprefix("bert.")] for name in summed if name.startswith("bert.")}
    moved = [name for name in held if not torch.equal(summed[name][: len(held[name])], held[name])]
    assert len(moved) >= 6 * 6, "each linear layer of 6"


def changed(adapter, scale, **settings):
    """The adapter with other settings, of rank 3, and its tensors drawn."""
    file = adapter / "adapter_config.json"
    told = {**json.loads(file.read_text()), "r": 3, "lora_alpha": 5.0, **settings}
    file.write_text(json.dumps(told))
    draw, file = torch.Generator().manual_seed(3), adapter / "adapter_model.safetensors"
    shapes = {name: list(tensor.shape) for name, tensor in load_file(file).items()}
    for name, shape in shapes.items():
        shape[:] = [3 if size == 1 and "lora" in name else size for size in shape]
    save_file({n: scale * torch.randn(s, generator=draw) for n, s in shapes.items()}, file)
    return resolve_model(str(adapter))


def test_any_rank_and_scale_are_summed_to_the_bits_of_pefts_merge(adapter, monkeypatch, no_peft):
    model = changed(adapter, 0.1)
    summed = load_weights(model)
    monkeypatch.undo()
    assert_same_bits(summed, by_peft(monkeypatch, model))


def test_an_adapter_with_a_setting_of_another_kind_is_merged_by_peft(adapter, encoder):
    model = changed(adapter, 0.1, use_rslora=True)
    merged = load_weights(model)
    name, part = "encoder.layer.0.output.dense", load_file(adapter / "adapter_model.safetensors")
    down, up = (part[f"{PEFT}bert.{name}.lora_{half}.weight"] for half in "AB")
    weight = load_file(encoder / "model.safetensors")[f"{name}.weight"]
    expected = weight + up @ down * (5.0 / 3**0.5)
    torch.testing.assert_close(merged[f"bert.{name}.weight"], expected)
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "r": 2}))
    base, config = load_file(encoder / "model.safetensors"), encoder / "config.json"
    with pytest.raises(InputError, match=f"{adapter}: not an adapter of this model: Error"):
        adapters.merged_by_peft(base, {**json.loads(config.read_text()), "num_labels": 2}, adapter)


@pytest.mark.parametrize(
    "own",
    [
        {"use_dora": True},
        {"lora_bias": True},
        {"bias": "all"},
        {"target_modules": ["query", "word_embeddings"]},
        {"peft_type": "IA3", "feedforward_modules": []},
    ],
    ids=lambda own: next(iter(own)),
)
def test_an_adapter_with_tensors_of_its_kind_is_what_peft_computes(adapter, encoder, own):
    """Beside the two parts of an update: magnitudes, biases, embeddings' updates, factors."""
    import peft
    from transformers import BertForSequenceClassification

    settings = {"peft_type": "LORA", "task_type": "SEQ_CLS", "target_modules": ["query"], **own}
    torch.manual_seed(5)
    model = BertForSequenceClassification.from_pretrained(encoder, num_labels=2)
    made = peft.get_peft_model(model, peft.get_peft_config(settings))
    with torch.no_grad():
        for tensor in made.parameters():
            if tensor.requires_grad:
                tensor += 0.1 * torch.randn_like(tensor)
    made.save_pretrained(adapter)
    expected = made.merge_and_unload().state_dict()
    found = resolve_model(str(adapter))
    assert describe(str(adapter), None).problems == []
    torch.testing.assert_close(dict(load_weights(found)), dict(expected))


@pytest.fixture
def parts(adapter, encoder):
    """What `plain_sum` is given: base, adapter, its settings, the merged model's config."""
    base = load_file(encoder / "model.safetensors")
    settings = json.loads((adapter / "adapter_config.json").read_text())
    config = json.loads((encoder / "config.json").read_text()) | {"num_labels": 2}
    own = load_file(adapter / "adapter_model.safetensors")
    return [{f"bert.{name}": tensor for name, tensor in base.items()}, own, settings, config]


def test_settings_that_are_not_those_of_a_plain_adapter_are_left_to_peft(parts):
    for setting in [
        {"peft_type": "LOHA"},
        {"task_type": "FEATURE_EXTRACTION"},
        {"bias": "lora_only"},
        {"r": 2},
        {"r": 0},
        {"r": "1"},
        {"lora_alpha": "1"},
        {"fan_in_fan_out": False},
    ]:
        base, own, settings, config = parts
        assert adapters.plain_sum(*parts) is not None
        for name, value in setting.items():
            assert settings.get(name, "absent") != value
        assert adapters.plain_sum(base, own, settings | setting, config) is None


@pytest.mark.parametrize("name", ["r", "lora_alpha", "bias"])
def test_settings_that_lack_one_are_left_to_peft(parts, name):
    del parts[2][name]
    assert adapters.plain_sum(*parts) is None


@pytest.mark.parametrize("name", ["target_modules", "modules_to_save"])
@pytest.mark.parametrize("value", ["dense", ["output.dense"], None])
def test_the_files_tensors_say_what_is_updated_however_the_settings_name_it(parts, name, value):
    base, own, settings, config = parts
    changed = adapters.plain_sum(base, own, {**settings, name: value}, config)
    assert_same_bits(changed, adapters.plain_sum(*parts))


def test_tensors_of_other_shapes_or_beyond_the_settings_are_left_to_peft(parts):
    base, own, settings, config = parts
    name = "bert.pooler.dense.bias"
    assert adapters.plain_sum({**base, name: base[name][:-1]}, own, settings, config) is None
    assert adapters.plain_sum({**base, "another": base[name]}, own, settings, config) is None
    half = f"{PEFT}bert.encoder.layer.1.output.dense.lora_A.weight"
    for more in ({half: torch.ones(1, 64)}, {f"{PEFT}classifier.bias": torch.ones(3)}):
        assert adapters.plain_sum(base, {**own, **more}, settings, config) is None
    del base[name]
    assert adapters.plain_sum(*parts) is None


def test_updates_of_no_rank_and_of_embeddings_are_left_to_peft(parts):
    base, own, settings, config = parts
    classifier = {name: tensor for name, tensor in own.items() if "classifier" in name}
    for layer, rank in (("encoder.layer.0.output.dense", 0), ("embeddings.word_embeddings", 1)):
        num_out, num_in = base[f"bert.{layer}.weight"].shape
        halves = {"A": torch.ones(rank, num_in), "B": torch.ones(num_out, rank)}
        updates = {f"{PEFT}bert.{layer}.lora_{half}.weight": t for half, t in halves.items()}
        told = settings | {"r": rank, "target_modules": [layer.partition(".")[2]]}
        assert adapters.plain_sum(base, classifier | updates, told, config) is None


def test_tensors_in_half_precision_are_summed_in_single(parts):
    base, own, settings, config = parts
    halves = [{name: tensor.half() for name, tensor in part.items()} for part in (base, own)]
    summed = adapters.plain_sum(*halves, settings, config)
    singles = [{name: tensor.float() for name, tensor in part.items()} for part in halves]
    assert_same_bits(summed, adapters.plain_sum(*singles, settings, config))
