"""Published checkpoints' keys and shapes, made up, become folders that transformers opens."""

import json

import checkpoints as made
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertForSequenceClassification, BertModel, BertTokenizerFast

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import open_tokenizer, resolve_model
from raypipe.models.scorer import load_scorer

IDS = torch.tensor([[2, 5, 6, 7, 3, 9, 11, 32, 3]])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1]])
THREE = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2]])


@torch.inference_mode()
def logits(model, segments=SEGMENTS):
    return model(IDS, token_type_ids=segments).logits


@torch.inference_mode()
def states(model):
    return model(IDS, token_type_ids=SEGMENTS).last_hidden_state


@pytest.fixture
def words(tmp_path):
    return made.write_vocabulary(tmp_path / "bert-base-uncased")


def safe(folder):
    """The same checkpoint as safetensors: without the second that a child process takes."""
    file = folder / "pytorch_model.bin"
    save_file(torch.load(file), folder / "model.safetensors")
    file.unlink()
    return folder


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


def test_repbert_without_a_tokenizer_is_told_whose_vocabulary_to_bring(tmp_path):
    folder = made.repbert(tmp_path / "repbert", made.bert())
    with pytest.raises(InputError, match=r"--tokenizer.*bert-base-uncased"):
        convert(folder, tmp_path / "out", preset="repbert")
    assert not (tmp_path / "out").exists()


def test_dl4marcos_variables_become_a_folder_with_its_logits(tmp_path):
    source = made.classifier()
    folder = made.dl4marco(tmp_path / "monobert", source)
    done = convert(folder, tmp_path / "out", preset="monobert-reference")
    opened = BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(logits(opened), logits(source), atol=1e-6, rtol=0)
    assert done.record["transposed"] == 2 * 6 + 1  # six products a layer, and the pooler
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


def test_duoberts_third_row_is_never_guessed(tmp_path):
    folder = made.dl4marco(tmp_path / "duobert", made.classifier(), segments=3)
    with pytest.raises(InputError, match=r"--segment-row zero.*--segment-row copy"):
        convert(folder, tmp_path / "out", preset="duobert")
    with pytest.raises(InputError, match="expected zero or copy, found 'row1'"):
        convert(folder, tmp_path / "out", preset="duobert", segment_row="row1")
    with pytest.raises(InputError, match="expected a duo model, found mono"):
        convert(folder, tmp_path / "out", preset="monobert", segment_row="zero")
    whole = made.dl4marco(tmp_path / "three", made.classifier(segments=3), segments=3)
    with pytest.raises(InputError, match="has 3 rows"):
        convert(whole, tmp_path / "out", preset="duobert", segment_row="zero")
    convert(whole, tmp_path / "out", preset="duobert")


def hugging_face(folder, model, **fields):
    made.write_vocabulary(folder, config={"do_lower_case": True, "model_max_length": 512})
    names = {"architectures": ["BertForSequenceClassification"], **fields}
    made.write_config(folder, **{**model.config.to_dict(), **names})
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


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
    assert (done.conventions.relevant_label, done.conventions.score) == (None, "raw")
    with pytest.raises(InputError, match="has 1 units, the conventions expect two"):
        convert(folder, tmp_path / "other", preset="monobert")


def test_a_missing_head_and_every_missing_tensor_are_told_at_once(tmp_path, words):
    folder = made.repbert(tmp_path / "m", made.bert())
    state = torch.load(folder / "pytorch_model.bin")
    del state["bert.encoder.layer.1.output.dense.bias"]
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(InputError) as told:
        convert(folder, tmp_path / "out", preset="monobert", tokenizer=words)
    text = str(told.value)
    assert "encoder.layer.1.output.dense.bias" in text
    assert "classifier.weight: it has no head" in text and "classifier.bias" in text
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out-*"))


def test_shapes_and_layers_that_are_not_the_configs_are_refused(tmp_path, words):
    folder = safe(made.repbert(tmp_path / "m", made.bert()))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.raises(InputError, match=r"encoder\.layer\.1\..*no such tensor"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 99}))
    with pytest.raises(InputError, match=r"expected shape \[99, 32\].*found \[37, 32\]"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)


def test_another_architecture_is_refused_by_name(tmp_path, words):
    folder = made.repbert(tmp_path / "m", made.bert())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    with pytest.raises(InputError, match="expected bert.*roberta"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)


def test_the_same_checkpoint_gives_the_same_bytes_and_nothing_is_overwritten(tmp_path, words):
    folder = safe(made.repbert(tmp_path / "m", made.bert()))
    for out in ("a", "b"):
        convert(folder, tmp_path / out, preset="repbert", tokenizer=words)
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert {"config.json", "model.safetensors", "tokenizer.json", "raypipe.json"} <= set(names)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with pytest.raises(InputError, match="does not exist or is empty"):
        convert(folder, tmp_path / "a", preset="repbert", tokenizer=words)


def test_a_tokenizer_made_of_a_vocabulary_is_transformers_own(tmp_path, words):
    folder = safe(made.repbert(tmp_path / "m", made.bert()))
    convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    theirs = BertTokenizerFast.from_pretrained(words, do_lower_case=True)
    ours = open_tokenizer(resolve_model(str(tmp_path / "out")))
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    for first, second in [("The Leases", "a ranked b"), ("\u00c9 zzz", "zz"), ("", "x [SEP] y")]:
        expected = theirs(first, second)
        found = ours.encode(first, second)
        assert (found.ids, found.type_ids) == (
            expected["input_ids"],
            expected["token_type_ids"],
        )
        assert again(first, second)["input_ids"] == expected["input_ids"]


def test_a_vocabulary_alone_does_not_say_whether_texts_are_lowered(tmp_path):
    folder = hugging_face(tmp_path / "m", made.classifier(units=1))
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(InputError, match="do_lower_case"):
        convert(folder, tmp_path / "out")


def test_a_tokenizer_of_another_model_is_refused(tmp_path, words):
    folder = safe(made.repbert(tmp_path / "m", made.bert()))
    with open(words / "vocab.txt", "a") as stream:
        stream.write("more\n")
    with pytest.raises(InputError, match="38 word pieces.*37"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)


def test_a_trainers_file_and_parallel_names_are_read(tmp_path, words):
    source = made.bert()
    folder = made.repbert(tmp_path / "m", source)
    state = torch.load(folder / "pytorch_model.bin")
    state = {f"module.{name}": tensor for name, tensor in state.items()}
    state = {n.replace("LayerNorm.weight", "LayerNorm.gamma"): t for n, t in state.items()}
    (folder / "pytorch_model.bin").unlink()
    torch.save({"state_dict": state, "epoch": 3}, folder / "last.ckpt")
    done = convert(folder / "last.ckpt", tmp_path / "out", preset="repbert", tokenizer=words)
    opened = BertModel.from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(states(opened), states(source), atol=1e-6, rtol=0)
    assert "epoch" in done.record["left_out"]


def test_shards_are_joined_and_may_not_lie_elsewhere(tmp_path, words):
    source = made.bert()
    folder = made.repbert(tmp_path / "m", source)
    (folder / "pytorch_model.bin").unlink()
    state = {f"bert.{name}": tensor for name, tensor in source.state_dict().items()}
    names = sorted(state)
    for shard, part in (("a", names[:20]), ("b", names[20:])):
        save_file({n: state[n] for n in part}, folder / f"{shard}.safetensors")
    placed = {n: f"{'a' if n in names[:20] else 'b'}.safetensors" for n in names}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": placed}))
    convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    assert torch.equal(
        load_file(tmp_path / "out" / "model.safetensors")["pooler.dense.bias"],
        source.state_dict()["pooler.dense.bias"],
    )
    index.write_text(json.dumps({"weight_map": {**placed, "x": "../secret.bin"}}))
    with pytest.raises(InputError, match=r"a file beside it, found '\.\./secret\.bin'"):
        convert(folder, tmp_path / "other", preset="repbert", tokenizer=words)


def test_several_checkpoints_in_a_folder_are_named_and_none_is_chosen(tmp_path, words):
    folder = made.repbert(tmp_path / "m", made.bert())
    (folder / "pytorch_model.bin").rename(folder / "350000.bin")
    (folder / "100000.bin").write_bytes((folder / "350000.bin").read_bytes())
    with pytest.raises(InputError, match=r"found 100000\.bin, 350000\.bin; name the one"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    convert(folder / "350000.bin", tmp_path / "out", preset="repbert", tokenizer=words)


@pytest.mark.parametrize("named", ["", "model.ckpt-400000", "model.ckpt-400000.index"])
def test_a_raw_tensorflow_checkpoint_is_answered_with_the_lines_that_convert_it(tmp_path, named):
    folder = made.dl4marco(tmp_path / "m", made.classifier())
    (folder / "model.npz").unlink()
    for end in ("index", "data-00000-of-00001"):
        (folder / f"model.ckpt-400000.{end}").write_bytes(b"\0")
    with pytest.raises(InputError, match="TensorFlow") as told:
        convert(folder / named if named else folder, tmp_path / "out", preset="monobert")
    notes = told.value.__notes__
    assert notes[0] == "import numpy, tensorflow as tf"
    assert str(folder / "model.ckpt-400000") in notes[1] and "numpy.savez" in notes[2]
    compile("\n".join(notes[:3]), "lines", "exec")


def test_a_git_lfs_pointer_is_called_one(tmp_path, words):
    folder = made.repbert(tmp_path / "m", made.bert())
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (folder / "pytorch_model.bin").write_bytes(pointer)
    with pytest.raises(InputError, match="git lfs pull"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)


def test_a_sentence_transformer_with_its_weights_in_a_folder_of_their_own(tmp_path):
    source = made.bert()
    folder = tmp_path / "m"
    inner = safe(made.repbert(folder / "0_Transformer", source))
    made.write_vocabulary(inner, config={"do_lower_case": True})
    (inner / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    listed = [
        {"path": place, "type": f"sentence_transformers.models.{place[2:]}"}
        for place in ("0_Transformer", "1_Pooling")
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    done = convert(folder, tmp_path / "out")
    assert (done.conventions.pooling, done.conventions.query_limit) == ("cls", 126)
    assert done.record["conventions_from"]["pooling"] == "1_Pooling/config.json"
    assert load_encoder(resolve_model(str(tmp_path / "out"))).dim == 32


def test_everything_wrong_before_the_weights_is_told_at_once(tmp_path):
    folder = made.repbert(tmp_path / "m", made.bert())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").touch()
    with pytest.raises(InputError) as told:
        convert(folder, tmp_path / "out", preset="monobret")
    assert len(told.value.problems) == 3
    assert "did you mean monobert" in str(told.value) and "--tokenizer" in str(told.value)
    assert (tmp_path / "out" / "kept").exists()
