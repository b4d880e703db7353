"""Published checkpoints' keys and shapes, made up, become folders that transformers opens."""

import json

import checkpoints as made
import numpy as np
import pytest
import torch
from conversions import IDS, SEGMENTS, hugging_face, safe, states
from transformers import BertForSequenceClassification, BertModel

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder, load_scorer

THREE = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2]])


@torch.inference_mode()
def logits(model, segments=SEGMENTS):
    return model(IDS, token_type_ids=segments).logits


@pytest.fixture
def words(tmp_path):
    return made.write_vocabulary(tmp_path / "bert-base-uncased")


@pytest.mark.slow
def test_repberts_pickle_becomes_a_folder_with_its_embeddings(tmp_path, words):
    source = made.bert()
    folder = made.repbert(tmp_path / "repbert", source)
    done = convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    opened, info = BertModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    torch.testing.assert_close(states(opened.eval()), states(source), atol=1e-6, rtol=0)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert done.record["left_out"] == ["bert.embeddings.position_ids"]
    assert done.record["files"][0]["format"] == "pickle"
    model = resolve_model(str(tmp_path / "out"))
    assert model.conventions == resolve_model(str(tmp_path / "out"), "repbert").conventions
    assert load_encoder(model).dim == 32


def test_dl4marcos_variables_become_a_folder_with_its_logits(tmp_path):
    source = made.classifier()
    folder = made.dl4marco(tmp_path / "monobert", source)
    done = convert(folder, tmp_path / "out", preset="monobert-reference")
    opened = BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(logits(opened), logits(source), atol=1e-6, rtol=0)
    assert done.record["left_out"] == [
        "bert/pooler/dense/kernel/adam_m",
        "bert/pooler/dense/kernel/adam_v",
        "global_step",
        "output_weights/adam_m",
        "output_weights/adam_v",
    ]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["model_type"], config["layer_norm_eps"]) == ("bert", 1e-12)
    assert not describe(str(tmp_path / "out"), None).problems
    load_scorer(resolve_model(str(tmp_path / "out")))


@pytest.mark.slow
def test_names_of_tensorflow_are_read_in_a_state_dict_too(tmp_path):
    source = made.classifier()
    folder = made.dl4marco(tmp_path / "m", source)
    (folder / "model.npz").unlink()
    arrays = {f"{n}:0": torch.from_numpy(np.array(a)) for n, a in made.tensorflow_names(source)}
    torch.save(arrays, folder / "weights.pt")
    convert(folder, tmp_path / "out", preset="monobert")
    opened = BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(logits(opened), logits(source), atol=1e-6, rtol=0)


@pytest.mark.parametrize("choice", ["zero", "copy"])
def test_duoberts_two_row_table_gets_the_row_that_was_named(tmp_path, choice):
    source = made.classifier(segments=2)
    folder = made.dl4marco(tmp_path / "duobert", source, segments=3)
    done = convert(folder, tmp_path / "out", preset="duobert", segment_row=choice)
    opened = BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    table = opened.bert.embeddings.token_type_embeddings.weight
    two = source.bert.embeddings.token_type_embeddings.weight
    assert table.shape == (3, 32) and torch.equal(table[:2], two)
    assert torch.equal(table[2], torch.zeros(32) if choice == "zero" else two[1])
    assert done.record["segment_row"] == {"row": 2, "from": choice}
    written = json.loads((tmp_path / "out" / "raypipe.json").read_text())
    assert written["made_by"]["segment_row"]["from"] == choice
    expected = one_hot_logits(source, THREE, choice)
    torch.testing.assert_close(logits(opened, THREE), expected, atol=1e-6, rtol=0)
    assert not describe(str(tmp_path / "out"), None).problems
    load_scorer(resolve_model(str(tmp_path / "out")))


@torch.inference_mode()
def one_hot_logits(source, segments, choice):
    """TensorFlow's way: one-hot of depth 2 times the table, where id 2 is no row at all."""
    ids = segments.clamp(max=1) if choice == "copy" else segments
    one_hot = (ids[..., None] == torch.arange(2)).float()
    rows = one_hot @ source.bert.embeddings.token_type_embeddings.weight
    words = source.bert.embeddings.word_embeddings(IDS)
    zero = source.bert.embeddings.token_type_embeddings.weight[0]
    # BertModel adds segment 0's row to inputs_embeds by itself.
    return source(inputs_embeds=words + rows - zero).logits


@pytest.mark.slow
def test_a_pickled_classifier_of_two_units_keeps_its_logits(tmp_path):
    source = made.classifier(units=2)
    folder = hugging_face(tmp_path / "m", source)
    convert(folder, tmp_path / "out", preset="monobert")
    opened = BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(logits(opened), logits(source), atol=1e-6, rtol=0)


def test_a_classifier_of_one_unit_is_a_mono_model_by_its_own_files(tmp_path):
    source = made.classifier(units=1)
    folder = safe(hugging_face(tmp_path / "m", source))
    done = convert(folder, tmp_path / "out")
    opened = BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert logits(opened).shape == (1, 1)
    torch.testing.assert_close(logits(opened), logits(source), atol=1e-6, rtol=0)
    assert (done.conventions.relevant_label, done.conventions.score) == (None, "probability")
    with pytest.raises(InputError, match="has 1 units, the settings expect two"):
        convert(folder, tmp_path / "other", preset="monobert")
