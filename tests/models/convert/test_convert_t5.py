"""A T5 reranker's pickle, as published, becomes a folder with its scores."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from stage_inputs import parts_of
from tiny_t5 import DUO, make_tiny_t5
from transformers import AutoModelForSeq2SeqLM

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.scorer import load_scorer

EARLY = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
TABLES = ["decoder.embed_tokens.weight", "encoder.embed_tokens.weight"]


def published(folder, *, pickled=False, **settings):
    """As published folders are: every name of the table, and a tensor of old."""
    make_tiny_t5(folder, **settings)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": None}))
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    (folder / "raypipe.json").unlink()
    state |= dict.fromkeys(TABLES, state["shared.weight"])
    state.setdefault("lm_head.weight", state["shared.weight"])
    state |= {EARLY: torch.ones(32, 4)}
    if pickled:
        torch.save(state, folder / "pytorch_model.bin")
    else:  # without the seconds of a child process
        save(folder, state)
    return folder


def save(folder, state):
    copies = {name: tensor.clone() for name, tensor in state.items()}
    save_file(copies, folder / "model.safetensors", metadata={"format": "pt"})


def scores(model):
    query, *passages = parts_of(model, ["the lease"], ["a zebra"], ["shards"])
    return load_scorer(model).score(query, passages[: model.reranker.num_passages])


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_checkpoint_becomes_a_folder_with_its_scores(tmp_path, version):
    make_tiny_t5(tmp_path / "safe", version=version)
    expected = scores(resolve_model(str(tmp_path / "safe"), "monot5"))
    pickled = version == "1.0"
    folder = published(tmp_path / "published", version=version, pickled=pickled)
    if pickled:
        with pytest.raises(InputError, match="which can run code; convert it: raypipe model"):
            resolve_model(str(folder), "monot5")
    done = convert(folder, tmp_path / "out", preset="monot5")
    assert done.record["left_out"] == sorted([EARLY, *TABLES])
    opened = resolve_model(str(tmp_path / "out"))
    assert opened.conventions == resolve_model(str(tmp_path / "out"), "monot5").conventions
    assert np.array_equal(scores(opened), expected)
    assert describe(str(tmp_path / "out"), None).problems == []
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["T5ForConditionalGeneration"]
    body = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert body["tokenizer_class"] == "T5Tokenizer" and body["model_max_length"] == 512
    _, info = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_a_duot5_needs_no_third_segment(tmp_path):
    folder = published(tmp_path / "published", **DUO)
    convert(folder, tmp_path / "out", preset="duot5")
    found = scores(resolve_model(str(tmp_path / "out")))
    assert 0 < found[0] < 1 and describe(str(tmp_path / "out"), None).problems == []
    with pytest.raises(InputError, match="--segment-row: expected a duoBERT model"):
        convert(folder, tmp_path / "other", preset="duot5", segment_row="zero")


def test_without_a_preset_it_is_told_those_that_read_a_prompt(tmp_path):
    folder = published(tmp_path / "published")
    for preset in (None, "monobert"):
        with pytest.raises(InputError, match=r"name a preset .monot5, monot5-mmarco, duot5."):
            convert(folder, tmp_path / "out", preset=preset)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_without_the_head_of_version_1_1_is_refused(tmp_path):
    folder = published(tmp_path / "published", version="1.1")
    state = load_file(folder / "model.safetensors")
    del state["lm_head.weight"]
    save(folder, state)
    with pytest.raises(InputError, match="the checkpoint lacks the tensor lm_head.weight"):
        convert(folder, tmp_path / "out", preset="monot5")


def test_a_sentencepiece_model_becomes_a_tokenizer_json(tmp_path, t5_pieces):
    folder = published(tmp_path / "published", vocab_size=200)
    (folder / "tokenizer.json").unlink()
    shutil.copyfile(t5_pieces, folder / "spiece.model")
    done = convert(folder, tmp_path / "out", preset="monot5")
    assert [*done.record["tokenizer"]["made_from"]] == ["spiece.model"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert "tokenizer.json" in names and "spiece.model" not in names
    assert np.isfinite(scores(resolve_model(str(tmp_path / "out")))).all()
