import json

import checkpoints as made
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from raypipe.errors import InputError
from raypipe.models.convert.convert import find_tokenizer, write_tokenizer


def touch(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def test_the_first_folder_with_a_tokenizer_and_the_letters_it_reads(tmp_path):
    one, two = touch(tmp_path / "1"), touch(tmp_path / "2", "vocab.txt")
    Tokenizer(WordLevel()).save(str(two / "tokenizer.json"))
    assert find_tokenizer([one, two], None) == (two, {})
    made.write_vocabulary(one)
    with pytest.raises(InputError, match="no file says whether texts are lower-cased"):
        find_tokenizer([one, two], None)
    with pytest.raises(InputError, match="no file says whether texts are lower-cased"):
        find_tokenizer([one, two], "other")
    _, case = find_tokenizer([one, two], "duobert-reference")
    assert case == {"lower_case": True, "lower_case_from": "preset duobert-reference"}
    made.write_vocabulary(one, config={"do_lower_case": False})
    source = "tokenizer_config.json do_lower_case"
    stated = {"lower_case": False, "lower_case_from": source}
    assert find_tokenizer([one, two], "monobert") == (one, stated)
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
    record, notes = write_tokenizer(*find_tokenizer([words], None), out, config)
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
            write_tokenizer(*find_tokenizer([bad], None), touch(tmp_path / "x"), config)
        assert len(told.value.problems) == 1
    none = {**body, "added_tokens": [], "post_processor": None}
    none["model"] = {**body["model"], "vocab": {}}
    (bad / "tokenizer.json").write_text(json.dumps(none))
    with pytest.raises(InputError) as told:
        write_tokenizer(*find_tokenizer([bad], None), touch(tmp_path / "x"), config)
    specials = ("[CLS]", "[SEP]", "[UNK]")
    assert told.value.problems == [f"{bad}: the tokenizer has no {each}" for each in specials]
    assert text.count("\n") == 37
