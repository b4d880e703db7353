"""Weights under the names that other programs leave, read as they lie."""

import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from sparse_models import make_splade
from stage_inputs import parts_of

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder, load_scorer

TEXTS = ["the lease", "shard rank", ""]


def renamed(folder, change):
    file = folder / "model.safetensors"
    tensors = {change(name): tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})


def scores(folder):
    model = resolve_model(str(folder))
    query, passage = parts_of(model, TEXTS, TEXTS[::-1])
    return load_scorer(model).score(query, [passage])


@pytest.mark.parametrize(
    "change",
    [
        lambda name: f"_orig_mod.{name}",
        lambda name: f"module._orig_mod.{name}",
        lambda name: f"model.{name}",
        lambda name: f"0.auto_model.{name}",
        lambda name: name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"),
    ],
)
def test_wrappers_and_old_names_change_no_score(mono, tmp_path, change):
    folder = shutil.copytree(mono, tmp_path / "named")
    renamed(folder, change)
    assert np.array_equal(scores(folder), scores(mono))
    assert describe(str(folder), None).problems == []


def test_a_prefix_of_some_tensors_alone_is_no_wrapper(mono, tmp_path):
    folder = shutil.copytree(mono, tmp_path / "named")
    renamed(folder, lambda name: f"module.{name}" if "layer.1" in name else name)
    with pytest.raises(InputError, match="lacks the tensor bert.encoder.layer.1"):
        resolve_model(str(folder))


def test_a_tied_table_under_its_decoders_name_is_the_table(tmp_path):
    plain = make_splade(tmp_path / "plain")
    tied = shutil.copytree(plain, tmp_path / "tied")
    words, decoder = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
    renamed(tied, lambda name: decoder if name == words else name)
    found = []
    for folder in (plain, tied):
        model = resolve_model(str(folder))
        (text,) = parts_of(model, TEXTS)
        offsets = np.concatenate([[0], np.cumsum(text.counts)])
        found.append(load_encoder(model).encode(text.flat, offsets, side="passage"))
    assert np.array_equal(*found) and found[0].any()
