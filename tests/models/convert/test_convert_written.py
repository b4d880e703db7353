import json

import checkpoints as made
import pytest
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.convert.convert import convert


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
