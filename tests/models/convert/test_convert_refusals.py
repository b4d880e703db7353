import json

import checkpoints as made
import pytest
import torch
from conversions import hugging_face, safe

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert


@pytest.fixture
def words(tmp_path):
    return made.write_vocabulary(tmp_path / "bert-base-uncased")


def test_repbert_without_a_tokenizer_is_told_whose_vocabulary_to_bring(tmp_path):
    folder = made.repbert(tmp_path / "repbert", made.bert())
    with pytest.raises(InputError, match=r"--tokenizer.*bert-base-uncased"):
        convert(folder, tmp_path / "out", preset="repbert")
    assert not (tmp_path / "out").exists()


def test_duoberts_third_row_is_never_guessed(tmp_path):
    folder = made.dl4marco(tmp_path / "duobert", made.classifier(), segments=3)
    with pytest.raises(
        InputError, match=r"segment_row: zero .* or segment_row: copy .* --segment-row"
    ):
        convert(folder, tmp_path / "out", preset="duobert")
    with pytest.raises(InputError, match="expected zero or copy, found 'row1'"):
        convert(folder, tmp_path / "out", preset="duobert", segment_row="row1")
    with pytest.raises(InputError, match="expected a duoBERT model, found mono"):
        convert(folder, tmp_path / "out", preset="monobert", segment_row="zero")
    whole = made.dl4marco(tmp_path / "three", made.classifier(segments=3), segments=3)
    with pytest.raises(InputError, match="this one has 3, remove it"):
        convert(whole, tmp_path / "out", preset="duobert", segment_row="zero")
    convert(whole, tmp_path / "out", preset="duobert")


@pytest.mark.slow
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
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bart"}))
    with pytest.raises(InputError, match="expected bert.*bart"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)


def test_a_vocabulary_alone_does_not_say_whether_texts_are_lowered(tmp_path):
    folder = hugging_face(tmp_path / "m", made.classifier(units=1))
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(InputError, match="do_lower_case"):
        convert(folder, tmp_path / "out")


def test_a_tokenizer_of_another_model_is_refused(tmp_path, words):
    folder = safe(made.repbert(tmp_path / "m", made.bert()))
    with open(words / "vocab.txt", "a") as stream:
        stream.write("more\n")
    with pytest.raises(InputError, match="word pieces 0 to 36.*found 37"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)


@pytest.mark.slow
def test_several_checkpoints_in_a_folder_are_named_and_none_is_chosen(tmp_path, words):
    folder = made.repbert(tmp_path / "m", made.bert())
    (folder / "pytorch_model.bin").rename(folder / "350000.bin")
    (folder / "100000.bin").write_bytes((folder / "350000.bin").read_bytes())
    with pytest.raises(InputError, match=r"found 100000\.bin, 350000\.bin; name the one"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    convert(folder / "350000.bin", tmp_path / "out", preset="repbert", tokenizer=words)


@pytest.mark.parametrize("named", ["", "model.ckpt-400000", "model.ckpt-400000.index"])
def test_a_raw_tensorflow_checkpoint_is_answered_with_the_lines_that_convert_it(
    tmp_path, named, raypipe_here
):
    folder = made.dl4marco(tmp_path / "m", made.classifier())
    (folder / "model.npz").unlink()
    for end in ("index", "data-00000-of-00001"):
        (folder / f"model.ckpt-400000.{end}").write_bytes(b"\0")
    with pytest.raises(InputError, match="TensorFlow") as told:
        convert(folder / named if named else folder, tmp_path / "out", preset="monobert")
    notes = told.value.__notes__
    words = ("model", "convert", folder / named, "--preset", "repbert", "--out", tmp_path / "out")
    said = raypipe_here(*words)
    assert said.returncode == 2
    assert said.stderr.splitlines()[1 : len(notes) + 1] == [f"  {note}" for note in notes]
    assert notes[0] == "import numpy, tensorflow as tf"
    assert str(folder / "model.ckpt-400000") in notes[1] and "numpy.savez" in notes[2]
    compile("\n".join(notes[:3]), "lines", "exec")


def test_a_git_lfs_pointer_is_called_one(tmp_path, words):
    folder = made.repbert(tmp_path / "m", made.bert())
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (folder / "pytorch_model.bin").write_bytes(pointer)
    with pytest.raises(InputError, match="git lfs pull"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)


def test_a_tokenizer_that_is_a_git_lfs_pointer_is_called_one(tmp_path, words):
    folder = safe(made.repbert(tmp_path / "m", made.bert()))
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (words / "tokenizer.json").write_bytes(pointer)
    with pytest.raises(InputError, match=f"{words}/tokenizer.json.*git lfs pull"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    assert not (tmp_path / "out").exists()


def test_a_model_with_code_of_its_own_is_not_written_as_one_without(tmp_path, words):
    folder = safe(made.repbert(tmp_path / "m", made.bert()))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "a.B"}}))
    with pytest.raises(InputError, match=r"config.json: auto_map: expected none, found code"):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    assert not (tmp_path / "out").exists()


def test_everything_wrong_before_the_weights_is_told_at_once(tmp_path):
    folder = made.repbert(tmp_path / "m", made.bert())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").touch()
    with pytest.raises(InputError) as told:
        convert(folder, tmp_path / "out", preset="monobret")
    assert len(told.value.problems) == 3
    assert "did you mean monobert" in str(told.value) and "--tokenizer" in str(told.value)
    assert (tmp_path / "out" / "kept").exists()
