"""Names of tensors and classes in the folder that a training leaves: transformers' own."""

import json
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification, BertModel

from raypipe.models.folder.model_folder import load_weights, resolve_model
from raypipe.training.export import write_model
from raypipe.training.start import starting_tensors


@pytest.mark.parametrize(
    ("make", "opened"),
    [
        ("make_tiny_bert", BertModel),
        ("make_tiny_reranker", BertForSequenceClassification),
    ],
)
def test_a_trained_model_has_the_names_that_transformers_gives_it(tiny, tmp_path, make, opened):
    start = resolve_model(str(getattr(tiny, make)(tmp_path / "start")))
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
    own = load_file(start.folder / "model.safetensors")
    kept = {name for name in own if opened is not BertModel or not name.startswith("pooler.")}
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert set(found) == kept
    assert all((found[name] == own[name] + 1.0).all() for name in kept)
    resolve_model(str(tmp_path / "out"))
