import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from raypipe.errors import InputError
from raypipe.models.folder.files import read_json, read_object
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.folder.sentence_transformers import (
    Evidence,
    check_tokenizer,
    read_prompts,
    token_limit,
)


@pytest.mark.parametrize(
    ("stated", "longest", "positions", "expected"),
    [
        (7, 5, 9, 7), (None, 5, 9, 5), (None, 9, 9, 9), (None, 1e30, 9, 9), (None, None, 9, 9),
        (None, 5, None, 5), (None, None, None, None), (None, 8.0, 9, 8),
    ],
)  # fmt: skip
def test_the_longest_input_is_stated_or_the_lesser_of_two(
    tmp_path, stated, longest, positions, expected
):
    if stated is not None:
        (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": stated}))
    if longest is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": longest}))
    config = {} if positions is None else {"max_position_embeddings": positions}
    assert token_limit(ModelFiles(tmp_path), config)[0] == expected


@pytest.mark.parametrize(
    ("body", "query", "passage", "notes"),
    [
        ({}, "", "", 0),
        ({"prompts": {"query": "q", "passage": "p", "corpus": "c"}}, "q", "", 1),
        ({"prompts": {"document": "d", "passage": "p"}}, "", "d", 0),
        ({"prompts": {"corpus": "c"}}, "", "", 1),
        ({"prompts": {"query": None}}, "", "", 0),
        ({"prompts": {"query": "q"}, "default_prompt_name": "query"}, "q", "", 0),
        ({"prompts": {"other": "o"}, "default_prompt_name": "other"}, "", "", 1),
        ({"prompts": {"other": ""}, "default_prompt_name": "other"}, "", "", 0),
        ({"prompts": {}, "default_prompt_name": "other"}, "", "", 0),
    ],
)
def test_prompts_become_the_prefix_of_their_side(tmp_path, body, query, passage, notes):
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(body))
    found = Evidence()
    read_prompts(ModelFiles(tmp_path), found)
    values = (found.values["query_prefix"] or "", found.values["passage_prefix"] or "")
    assert values == (query, passage) and len(found.notes) == notes and not found.problems
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": ["x"]}')
    with pytest.raises(InputError, match="prompts: expected an object"):
        read_prompts(ModelFiles(tmp_path), Evidence())
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="expected a JSON object, found list"):
        read_object(tmp_path / "list.json")
    assert read_object(tmp_path / "absent.json") == {}
    (tmp_path / "ill.json").symlink_to("/proc/self/mem")  # its first page cannot be read
    with pytest.raises(InputError, match=r"ill\.json: expected a JSON file, found: Input/output"):
        read_json(tmp_path / "ill.json")


def test_a_tokenizer_that_cannot_be_read_is_named_and_one_of_no_known_model_left(tmp_path):
    check_tokenizer(ModelFiles(tmp_path), found := Evidence())
    assert found.by_library is None  # a vocab.txt is BERT's
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}
    made = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    made.save(str(tmp_path / "tokenizer.json"))
    check_tokenizer(ModelFiles(tmp_path), found)
    assert found.by_library is None
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    check_tokenizer(ModelFiles(tmp_path), found)
    assert found.by_library == "tokenizer.json: the tokenizer has no <s> or no </s>"
    (tmp_path / "config.json").write_text('{"model_type": "none"}')
    check_tokenizer(ModelFiles(tmp_path), found)
    assert found.by_library.startswith("tokenizer.json: model_type: ")
    assert "found 'none'" in found.by_library
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(InputError, match="tokenizer.json: expected"):
        check_tokenizer(ModelFiles(tmp_path), found)
