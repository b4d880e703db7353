"""Files of a checkpoint, what a pickle may hold, names and tokenizers at their edges, by hand."""

import json
import subprocess
import sys

import checkpoints as made
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.convert.child import _plain, _tensors
from raypipe.models.convert.convert import convert
from raypipe.models.convert.find import find_checkpoint
from raypipe.models.convert.read import CHILD, read_checkpoint
from raypipe.models.convert.tensors import rename
from raypipe.models.convert.tokenizer import find_tokenizer, write_tokenizer
from raypipe.models.folder.conventions import Conventions, PairConventions


def touch(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


# Which files


def test_the_safe_files_come_first_and_any_other_must_be_alone(tmp_path):
    folder = touch(tmp_path / "m", "model.safetensors", "pytorch_model.bin", "other.pt")
    assert find_checkpoint(folder) == (folder, [folder / "model.safetensors"])
    (folder / "model.safetensors").unlink()
    assert find_checkpoint(folder) == (folder, [folder / "pytorch_model.bin"])
    (folder / "pytorch_model.bin").unlink()
    (folder / "a.bin").mkdir()  # a folder is no checkpoint
    touch(folder, "notes.txt")
    assert find_checkpoint(folder) == (folder, [folder / "other.pt"])
    assert find_checkpoint(folder / "notes.txt") == (folder, [folder / "notes.txt"])
    (folder / "other.pt").rename(folder / "weights.npz")
    assert find_checkpoint(folder) == (folder, [folder / "weights.npz"])
    touch(folder, "b.safetensors")
    with pytest.raises(InputError, match=r"found b.safetensors, weights.npz; .*b\.safetensors$"):
        find_checkpoint(folder)
    with pytest.raises(InputError, match=r"file, found none"):
        find_checkpoint(touch(tmp_path / "empty", "notes.txt"))
    with pytest.raises(InputError, match="no such file or folder"):
        find_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("end", ["", ".index", ".data-00000-of-00001"])
def test_any_file_of_a_tensorflow_checkpoint_names_it(tmp_path, end):
    folder = touch(tmp_path / "m", "c.ckpt-4.index", "c.ckpt-4.data-00000-of-00001")
    with pytest.raises(InputError, match=r"/m/c\.ckpt-4: a TensorFlow checkpoint") as told:
        find_checkpoint(folder / f"c.ckpt-4{end}")
    assert told.value.__notes__[-1].startswith(f"raypipe model convert {folder}/model.npz")
    touch(folder, "d.ckpt-5.index")
    with pytest.raises(InputError, match=r"/m/c\.ckpt-4: a TensorFlow checkpoint"):
        find_checkpoint(folder)


def test_an_index_names_files_beside_it_once_each(tmp_path):
    folder = touch(tmp_path / "m", "b.bin", "a.bin")
    index = folder / "pytorch_model.bin.index.json"

    def listed(places):
        index.write_text(json.dumps({"weight_map": places}))
        return find_checkpoint(index)

    assert listed({"x": "b.bin", "y": "a.bin", "z": "b.bin"})[1] == [
        folder / "a.bin",
        folder / "b.bin",
    ]
    assert find_checkpoint(folder) == find_checkpoint(index)
    with pytest.raises(InputError) as told:
        listed({"x": "../a.bin", "y": "gone.bin", "z": "a.bin"})
    assert told.value.problems == [
        f"{index}: expected the name of a file beside it, found '../a.bin'",
        f"{index}: gone.bin is not there",
    ]
    with pytest.raises(InputError, match="gone.bin is not there"):
        listed({"y": "gone.bin"})
    with pytest.raises(InputError, match=r"beside it, found 7"):
        listed({"y": 7})
    for broken in ("{", "[]", "{}", '{"weight_map": []}'):
        index.write_text(broken)
        with pytest.raises(InputError, match="expected a weight_map"):
            find_checkpoint(index)


# What a file holds


def test_tensors_are_found_under_the_keys_of_trainers_and_the_rest_is_named():
    w, v = torch.ones(1), torch.zeros(2)
    assert _tensors({"b": w, "a": 3}) == ({"b": w}, ["a"], None)
    assert _tensors({"epoch": 3, "arm": 1, "state_dict": {"w": w, "y": 1, "x": 2}}) == (
        {"w": w},
        ["arm", "epoch", "x", "y"],
        "state_dict",
    )
    both = {"model": {"v": v}, "model_state_dict": {"w": w}}
    assert _tensors(both) == ({"w": w}, ["model"], "model_state_dict")
    nested = {"model": {"state_dict": {"v": v}, "z": 1}}
    assert _tensors(nested) == ({"v": v}, ["z"], "model")
    assert _tensors({"model": w}) == ({"model": w}, [], None)
    for bad, told in (({"a": 1}, "found none"), ([w], "found list"), ({}, "found none")):
        with pytest.raises(ValueError, match=told):
            _tensors(bad)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_sparse_and_quantised_tensors_are_refused_by_name():
    transposed = torch.arange(6.0).view(2, 3).T
    plain = _plain("t", transposed)
    assert plain.is_contiguous() and torch.equal(plain, transposed)
    assert plain.data_ptr() != transposed.data_ptr()
    quantised = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    for bad in (torch.ones(2).to_sparse(), quantised):
        with pytest.raises(ValueError, match="^t: expected a dense tensor"):
            _plain("t", bad)


def test_the_child_exits_with_3_and_says_why(tmp_path):
    torch.save({"n": 1}, tmp_path / "a.bin")
    command = [sys.executable, "-I", CHILD, tmp_path / "a.bin", tmp_path / "out", "60"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "ValueError: expected tensors by name, found none\n"


def test_two_files_may_not_hold_one_name_and_archives_hold_numbers_alone(tmp_path):
    one, two, archive = (tmp_path / name for name in ("1.safetensors", "2.safetensors", "a.npz"))
    save_file({"a": torch.ones(1), "b": torch.ones(2)}, one)
    save_file({"c": torch.ones(3)}, two)
    np.savez(archive, d=np.arange(4), e=np.array([True]), f=np.ones((1, 2), "f4"))
    found = read_checkpoint([one, two, archive])
    assert {name: tuple(t.shape) for name, t in found.tensors.items()} == {
        "a": (1,), "b": (2,), "c": (3,), "d": (4,), "e": (1,), "f": (1, 2),
    }  # fmt: skip
    assert found.others == [] and [told["format"] for told in found.files] == [
        "safetensors",
        "safetensors",
        "npz",
    ]
    save_file({"a": torch.ones(1), "b": torch.ones(2), "x": torch.ones(1)}, two)
    with pytest.raises(InputError, match=r"2\.safetensors: a and 1 more are in another file"):
        read_checkpoint([one, two])
    np.savez(archive, x=np.array(["a"]), y=np.array([1j]), z=np.arange(2))
    with pytest.raises(InputError) as told:
        read_checkpoint([archive])
    assert told.value.problems == [
        f"{archive}: {name}: expected an array of numbers" for name in "xy"
    ]
    for broken in (one, archive):
        broken.write_bytes(b"no archive")
        with pytest.raises(InputError, match=r"not a safetensors file|expected arrays of numbers"):
            read_checkpoint([broken])


# Names


CONFIG = {
    "hidden_size": 4, "intermediate_size": 6, "max_position_embeddings": 16,
    "num_attention_heads": 2, "num_hidden_layers": 1, "type_vocab_size": 2, "vocab_size": 9,
}  # fmt: skip
ENCODER = Conventions(
    pooling="mean", normalise=False, query_segment=0, passage_segment=1, query_limit=3,
    passage_limit=6,
)  # fmt: skip


def duo(row):
    return PairConventions(
        kind="duo", query_limit=3, passage_limit=4, total_limit=16, relevant_label=1,
        score="probability", segment_row=row,
    )  # fmt: skip


def model_tensors(units, segments=2):
    from raypipe.models.bert.tensor_names import expected_shapes

    shapes = expected_shapes({**CONFIG, "type_vocab_size": segments}, num_labels=units)
    return {name: torch.full(shape, float(n)) for n, (name, shape) in enumerate(shapes.items())}


SEGMENTS = "bert.embeddings.token_type_embeddings.weight"


def test_a_third_row_is_the_commands_or_the_conventions_own():
    table = torch.tensor([[1.0] * 4, [2.0] * 4])
    tensors = {**model_tensors(2), "embeddings.token_type_embeddings.weight": table}
    for asked, held, last in (("zero", "copy", 0), (None, "copy", 2), ("copy", None, 2)):
        found = rename(tensors, CONFIG, duo(held), segment_row=asked)
        assert found.tensors[SEGMENTS].tolist() == [[1] * 4, [2] * 4, [last] * 4]
        assert found.segment_row == {"row": 2, "from": asked or held}
        assert (found.segment_rows, found.num_labels) == (3, 2)
    whole = rename(model_tensors(2, segments=3), CONFIG, duo(None), segment_row=None)
    assert whole.segment_row is None and whole.segment_rows == 3
    with pytest.raises(InputError, match="expected a duo model, found encoder"):
        rename(model_tensors(None), CONFIG, ENCODER, segment_row="zero")
    without = {n: t for n, t in tensors.items() if "token_type" not in n}
    with pytest.raises(InputError, match="lacks the tensor embeddings.token_type_embeddings"):
        rename(without, CONFIG, duo("zero"), segment_row=None)


def test_an_encoder_leaves_its_head_behind_and_tells_what_was_renamed():
    tensors = model_tensors(2)
    gamma = tensors.pop("embeddings.LayerNorm.weight")
    tensors["embeddings.LayerNorm.gamma"] = gamma
    tensors["lost"] = torch.ones(1)
    found = rename(tensors, CONFIG, ENCODER, segment_row=None)
    assert found.left_out == ["classifier.bias", "classifier.weight", "lost"]
    assert found.renamed == {"embeddings.LayerNorm.weight": "embeddings.LayerNorm.gamma"}
    assert torch.equal(found.tensors["embeddings.LayerNorm.weight"], gamma)
    assert len(found.tensors) == 5 + 16 + 2 and found.num_labels is None  # the pooler stays
    assert found.transposed == []
    tensors["bert.embeddings.LayerNorm.weight"] = gamma
    with pytest.raises(InputError, match="two tensors claim one place: bert.emb.* and emb"):
        rename(tensors, CONFIG, ENCODER, segment_row=None)


# The whole folder


@pytest.fixture
def plain(tmp_path):
    """A converted-ready folder of safetensors, with its vocabulary."""
    source = made.bert()
    folder = made.repbert(tmp_path / "m", source)
    (folder / "pytorch_model.bin").unlink()
    state = {f"bert.{name}": tensor for name, tensor in source.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    return made.write_vocabulary(folder)


def test_a_converted_folder_records_what_was_done(plain, tmp_path):
    out = tmp_path / "deep" / "out"
    done = convert(plain, out, preset="repbert")
    assert done.folder == out and out.stat().st_mode & 0o777 == 0o755
    written = json.loads((out / "raypipe.json").read_text())
    record = written["made_by"]
    assert record == json.loads(json.dumps(done.record))
    count = len(load_file(plain / "model.safetensors"))
    assert record["renamed"] == {
        "tensors": count,
        "example": "bert.embeddings.LayerNorm.bias -> embeddings.LayerNorm.bias",
    }
    assert (record["preset"], record["transposed"], record["left_out"]) == ("repbert", 0, [])
    assert record["config"] == {
        "file": "config.json",
        "set": {
            "architectures": [["RepBERT_Train"], ["BertModel"]],
            "position_embedding_type": [None, "absolute"],
        },
    }
    assert set(record["conventions_from"].values()) == {"preset repbert"}
    assert (record["tokenizer"]["lower_case"], record["tokenizer"]["lower_case_from"]) == (
        True,
        "preset repbert",
    )
    assert set(record["tokenizer"]["files"]) == {"vocab.txt"} and done.notes == []
    told = json.loads((out / "tokenizer_config.json").read_text())
    assert told == {
        "model_max_length": 512, "do_lower_case": True, "tokenizer_class": "BertTokenizer",
    }  # fmt: skip
    for name in ("config.json", "raypipe.json", "tokenizer_config.json"):  # laid out to be read
        text = (out / name).read_text()
        assert text == json.dumps(json.loads(text), indent=2) + "\n"
    again = convert(out, tmp_path / "again").record
    assert again["renamed"] == {"tensors": 0, "example": None}
    assert again["config"]["set"] == {} and again["preset"] is None
    assert set(again["tokenizer"]) == {"files"}


def test_what_cannot_be_written_leaves_nothing_and_a_file_is_no_folder(plain, tmp_path):
    with (plain / "vocab.txt").open("a") as stream:
        stream.write("more\n")
    with pytest.raises(InputError, match="38 word pieces, the model embeddings of 37"):
        convert(plain, tmp_path / "out", preset="repbert")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="/file: expected a folder"):
        convert(plain, tmp_path / "file", preset="repbert")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "m"]
    lines = (plain / "vocab.txt").read_text().splitlines()[:36]
    (plain / "vocab.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "out").mkdir()  # empty: it may stand
    done = convert(plain, tmp_path / "out", preset="repbert")
    assert done.notes == ["the tokenizer uses 36 of the model's 37 embeddings"]


def test_a_converted_duo_holds_its_third_row_and_no_word_of_it(tmp_path):
    folder = made.dl4marco(tmp_path / "m", made.classifier())
    body = {"kind": "duo", "query_limit": 3, "passage_limit": 4, "total_limit": 16}
    body |= {"relevant_label": 1, "score": "probability", "segment_row": "copy"}
    (folder / "raypipe.json").write_text(json.dumps(body))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    done = convert(folder, tmp_path / "out")
    written = json.loads((tmp_path / "out" / "raypipe.json").read_text())
    assert written["segment_row"] is None and done.conventions.segment_row is None
    assert done.record["segment_row"] == {"row": 2, "from": "copy"}
    assert done.record["conventions_from"]["segment_row"] == "raypipe.json"
    assert done.record["conventions_from"]["query_prefix"] == "default"
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["type_vocab_size"] == 3


# Tokenizers


def test_the_first_folder_with_a_tokenizer_and_the_letters_it_reads(tmp_path):
    one, two = touch(tmp_path / "1"), touch(tmp_path / "2", "tokenizer.json", "vocab.txt")
    found = find_tokenizer([one, two], None)
    assert (found.folder, found.lower_case, found.lower_case_from) == (two, None, None)
    made.write_vocabulary(one)
    with pytest.raises(InputError, match="nothing says whether texts are lowered"):
        find_tokenizer([one, two], None)
    with pytest.raises(InputError, match="nothing says whether texts are lowered"):
        find_tokenizer([one, two], "other")
    assert find_tokenizer([one, two], "duobert-reference").lower_case is True
    made.write_vocabulary(one, config={"do_lower_case": False})
    found = find_tokenizer([one, two], "monobert")
    assert (found.lower_case, found.lower_case_from) == (
        False,
        "tokenizer_config.json do_lower_case",
    )
    for preset, told in (
        ("repbert", "bert-base-uncased"), ("monobert", "bert-large-uncased"),
        ("duobert-reference", "bert-large-uncased"), ("minilm", "FOLDER$"), (None, "FOLDER$"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"no tokenizer.json or vocab.txt; .*{told}"):
            find_tokenizer([tmp_path], preset)


def test_a_tokenizer_without_the_specials_is_refused_for_each(tmp_path):
    words = made.write_vocabulary(tmp_path / "w", config={"do_lower_case": True})
    text = (words / "vocab.txt").read_text()
    out = touch(tmp_path / "out")
    config = {"vocab_size": 37, "max_position_embeddings": 8}
    record, notes = write_tokenizer(find_tokenizer([words], None), out, config)
    assert sorted(record["files"]) == ["tokenizer_config.json", "vocab.txt"] and notes == []
    assert "model_max_length" not in (out / "tokenizer_config.json").read_text()
    body = json.loads((out / "tokenizer.json").read_text())
    for lost in ("[CLS]", "[SEP]", "[UNK]"):
        vocabulary = {(k if k != lost else "zz"): v for k, v in body["model"]["vocab"].items()}
        added = [each for each in body["added_tokens"] if each["content"] != lost]
        changed = {**body, "added_tokens": added, "post_processor": None}
        changed["model"] = {**body["model"], "vocab": vocabulary}
        bad = touch(tmp_path / f"bad{lost[1:4]}")
        (bad / "tokenizer.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=rf"the tokenizer has no \{lost[:-1]}") as told:
            write_tokenizer(find_tokenizer([bad], None), touch(tmp_path / "x"), config)
        assert len(told.value.problems) == 1
    assert text.count("\n") == 37
