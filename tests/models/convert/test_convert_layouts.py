import json

import checkpoints as made
import pytest
import torch
from conversions import safe, states
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertModel, BertTokenizerFast

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder


@pytest.fixture
def words(tmp_path):
    return made.write_vocabulary(tmp_path / "bert-base-uncased")


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


@pytest.mark.slow
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


@pytest.mark.fault(39, "an index of weights that names a file elsewhere is refused")
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
    before, after = (load_file(each / "model.safetensors") for each in (plain, out))
    assert {f"bert.{name}" for name in after} == set(before)
    assert (record["preset"], record["config"], record["left_out"]) == (
        "repbert", "config.json", [],
    )  # fmt: skip
    own, config = (json.loads((each / "config.json").read_text()) for each in (plain, out))
    assert {key for key in config if own.get(key) != config[key]} == {
        "architectures", "position_embedding_type",
    }  # fmt: skip
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
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()
    assert again["preset"] is None and set(again["tokenizer"]) == {"files"}


def test_what_cannot_be_written_leaves_nothing_and_a_file_is_no_folder(plain, tmp_path):
    with (plain / "vocab.txt").open("a") as stream:
        stream.write("more\n")
    with pytest.raises(InputError, match="word pieces 0 to 36, .*, found 37, 'more'; take it out"):
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
