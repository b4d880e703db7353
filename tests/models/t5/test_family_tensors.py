"""A T5's tensors under the names that a checkpoint may have them, and those it must have."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from stage_inputs import parts_of
from tiny_t5 import TEXTS, make_tiny_t5, their_logits, theirs

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.scorer import load_scorer


def renamed(folder, change):
    """The folder's tensors under other names."""
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


def score(folder):
    model = resolve_model(str(folder))
    query, passage = parts_of(model, TEXTS, TEXTS[::-1])
    return load_scorer(model).score(query, [passage])


@pytest.mark.parametrize("name", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"])
def test_the_table_of_word_pieces_may_have_either_of_its_other_names(tmp_path, name):
    make_tiny_t5(tmp_path / "m")
    before = score(tmp_path / "m")

    def change(tensors):
        assert "lm_head.weight" not in tensors
        return {name: tensors.pop("shared.weight"), **tensors}

    renamed(tmp_path / "m", change)
    assert np.array_equal(score(tmp_path / "m"), before)


def test_a_head_beside_the_table_is_read_as_it_is_by_transformers(tmp_path):
    make_tiny_t5(tmp_path / "m")
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"

    def change(tensors):
        more = {"lm_head.weight": tensors["shared.weight"].flip(0), unused: torch.ones(32, 4)}
        return tensors | more

    renamed(tmp_path / "m", change)
    (found,) = score(tmp_path / "m")[:1]
    prompt = f"Query: {TEXTS[0]} Document: {'passage ' * 27}Relevant:"
    logits = their_logits(theirs(tmp_path / "m"), prompt)
    assert found == pytest.approx(float(torch.log_softmax(logits, 0)[1]), abs=1e-5, rel=1e-5)


@pytest.mark.parametrize(
    "lost",
    [
        "shared.weight",
        "lm_head.weight",
        "encoder.block.1.layer.1.DenseReluDense.wi_1.weight",
        "decoder.block.0.layer.1.EncDecAttention.q.weight",
    ],
)
def test_a_missing_tensor_is_named_before_any_work(tmp_path, lost):
    make_tiny_t5(tmp_path / "m", version="1.1")
    renamed(tmp_path / "m", lambda tensors: {n: t for n, t in tensors.items() if n != lost})
    with pytest.raises(InputError, match=f"lacks the tensor {lost}, which config.json says"):
        resolve_model(str(tmp_path / "m"))
    family = family_of({"model_type": "t5"})
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    if lost != "lm_head.weight":
        with pytest.raises(InputError, match=f"the checkpoint lacks the tensor {lost}"):
            family.read(load_file(tmp_path / "m" / "model.safetensors"), config)


@pytest.mark.parametrize("name", ["shared.weight", "lm_head.weight"])
def test_a_tensor_of_another_shape_is_named_with_both(tmp_path, name):
    make_tiny_t5(tmp_path / "m", version="1.1")
    renamed(tmp_path / "m", lambda tensors: tensors | {name: tensors[name][1:].clone()})
    with pytest.raises(InputError, match=rf"{name}: config.json says \[90, 32\], .* has \[89, 32"):
        resolve_model(str(tmp_path / "m"))
