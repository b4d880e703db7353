"""Model folders opened or refused."""

import json
from collections import Counter
from pathlib import Path

import pytest
import tiny
from json_files import changed, write
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import (
    layouts_of,
    packaged_folder,
    resolve_model,
    starting_weights,
)
from raypipe.models.load import load_encoder, load_scorer


@pytest.mark.parametrize("lost", ["[CLS]", "[SEP]"])
def test_a_tokenizer_without_one_of_the_specials_feeds_no_model(encoder, lost):
    body = json.loads((encoder / "tokenizer.json").read_text())
    vocabulary = body["model"]["vocab"]
    vocabulary["gone"] = vocabulary.pop(lost)
    body["added_tokens"] = [each for each in body["added_tokens"] if each["content"] != lost]
    body["post_processor"] = None
    write(encoder / "tokenizer.json", body)
    with pytest.raises(InputError, match=r"the tokenizer has no \[CLS\] or no \[SEP\]"):
        layouts_of(resolve_model(str(encoder)))


def test_what_is_missing_of_a_folder_is_told_at_once(encoder):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (encoder / name).unlink()
    with pytest.raises(InputError) as told:
        resolve_model(str(encoder))
    assert [p.split(": ")[1].split(";")[0] for p in told.value.problems] == [
        "expected model.safetensors, none",
        "no config.json",
        "no tokenizer.json or vocab.txt",
    ]
    with pytest.raises(InputError, match="no such model folder"):
        resolve_model(str(encoder / "x"))


@pytest.mark.parametrize("name", ["onnx/model.onnx", "model-q4_k_m.gguf", "tf_model.h5"])
def test_weights_for_other_programs_are_named_where_there_are_no_others(encoder, name):
    (encoder / "model.safetensors").unlink()
    (encoder / name).parent.mkdir(exist_ok=True)
    (encoder / name).write_bytes(b"weights")
    with pytest.raises(InputError) as told:
        resolve_model(str(encoder))
    (problem,) = told.value.problems
    assert f"expected model.safetensors, found {name}, which raypipe does not read" in problem
    assert "convert" not in problem


def test_weights_in_parts_are_to_be_converted_also_beside_those_for_other_programs(encoder):
    (encoder / "model.safetensors").rename(encoder / "model-00001-of-00001.safetensors")
    (encoder / "model.onnx").write_bytes(b"weights")
    with pytest.raises(InputError, match="expected model.safetensors, none; convert it"):
        resolve_model(str(encoder))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_git_lfs_pointer_in_the_place_of_a_file_is_called_one(encoder, name):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (encoder / name).write_bytes(pointer)
    with pytest.raises(
        InputError, match=f"{name}: expected .*, found a git LFS pointer to it; run"
    ):
        resolve_model(str(encoder))


def test_the_packaged_weights_are_the_pinned_ones_or_refused(tmp_path, monkeypatch, encoder):
    from raypipe.models.folder import model_folder

    minilm = resolve_model("minilm")
    assert minilm.weights_sha256 == model_folder.PACKAGED_SHA256
    assert starting_weights(minilm).startswith("1B pairs")
    assert starting_weights(resolve_model("minilm", "repbert")).startswith("1B pairs")
    assert resolve_model("minilm", "repbert").encoder.query_limit == 20
    changed(encoder / "raypipe.json", start_weights_saw="books")
    assert starting_weights(resolve_model(str(encoder))) == "books"
    assert starting_weights(resolve_model(str(encoder), "repbert")) == "books"
    own = resolve_model(str(encoder), settings={"start_weights_saw": "poems"})
    assert starting_weights(own) == "poems"
    (encoder / "raypipe.json").unlink()
    assert starting_weights(resolve_model(str(encoder), "repbert")) == "not stated"
    monkeypatch.setattr(model_folder, "packaged_folder", lambda: encoder)
    with pytest.raises(InputError, match="reinstall the package"):
        resolve_model("minilm")


def test_a_third_row_is_asked_of_rerankers_alone(encoder, mono):
    row = {"segment_row": "copy"}
    with pytest.raises(InputError, match="segment_row: expected a JSON object with"):
        resolve_model(str(encoder), settings=row)
    assert resolve_model(str(mono), settings=row).reranker.segment_row == "copy"
    assert resolve_model(str(mono)).reranker.segment_row is None


def test_a_reranker_needs_two_segment_rows_and_an_encoder_those_it_names(tiny, tmp_path):
    one = tiny.make_tiny_reranker(tmp_path / "one", segments=1)
    with pytest.raises(InputError, match="use segment 1, the model has 1 segment rows"):
        load_scorer(resolve_model(str(one)))
    single = tiny.make_tiny_bert(tmp_path / "s", segments=1, passage_segment=0)
    assert load_encoder(resolve_model(str(single))).dim == 32
    for side in ("query", "passage"):
        given = {"passage_segment": 0, f"{side}_segment": 2}
        folder = tiny.make_tiny_bert(tmp_path / side, **given)
        with pytest.raises(InputError, match="use segment 2, the model has 2 segment rows"):
            load_encoder(resolve_model(str(folder)))


@pytest.mark.fault(37, "a folder with a pickle in place of its weights is refused unopened")
def test_pickles_are_refused_and_never_opened(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    canary = tmp_path / "canary"
    (folder / "pytorch_model.bin").write_bytes(
        b"cos\nsystem\n(S'touch %s'\ntR." % str(canary).encode()
    )
    with pytest.raises(InputError, match=r"pytorch_model.bin.*raypipe model convert"):
        resolve_model(str(folder))
    assert not canary.exists()


def test_conventions_are_never_guessed(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    (folder / "raypipe.json").unlink()
    with pytest.raises(InputError, match="nothing says"):
        resolve_model(str(folder))
    with pytest.raises(InputError, match="did you mean repbert"):
        resolve_model(str(folder), "reqbert")
    assert resolve_model(str(folder), "repbert").conventions.passage_segment == 1


def test_changed_weights_are_found_when_they_are_loaded(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    model = resolve_model(str(folder))
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.bias"] += 1
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(InputError, match="SHA-256"):
        load_encoder(model)


def test_each_file_of_settings_is_read_once(monkeypatch):
    counts, own = Counter(), Path.read_bytes

    def counted(path):
        counts[path] += 1
        return own(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    resolve_model(str(packaged_folder()))
    assert {"modules.json", "config.json", "sentence_bert_config.json"} <= {p.name for p in counts}
    assert {*counts.values()} == {1}
