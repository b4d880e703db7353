import json

import pytest

from raypipe.errors import InputError
from raypipe.models.folder.evidence import Evidence, read_object, read_prompts, token_limit


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
    assert token_limit(tmp_path, config)[0] == expected


@pytest.mark.parametrize(
    ("body", "query", "passage", "problems"),
    [
        ({}, "", "", 0),
        ({"prompts": {"query": "q", "passage": "p", "corpus": "c"}}, "q", "p", 0),
        ({"prompts": {"document": "d", "passage": "p"}}, "", "d", 0),
        ({"prompts": {"corpus": "c"}}, "", "c", 0),
        ({"prompts": {"query": None}}, "", "", 0),
        ({"prompts": {"query": "q"}, "default_prompt_name": "query"}, "q", "", 0),
        ({"prompts": {"other": "o"}, "default_prompt_name": "other"}, "", "", 2),
        ({"prompts": {"other": ""}, "default_prompt_name": "other"}, "", "", 0),
        ({"prompts": {}, "default_prompt_name": "other"}, "", "", 0),
    ],
)
def test_prompts_become_the_prefix_of_their_side(tmp_path, body, query, passage, problems):
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(body))
    found = Evidence()
    read_prompts(tmp_path, found)
    values = (found.values["query_prefix"] or "", found.values["passage_prefix"] or "")
    assert values == (query, passage) and len(found.problems) == problems
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": ["x"]}')
    with pytest.raises(InputError, match="prompts: expected an object"):
        read_prompts(tmp_path, Evidence())
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="expected a JSON object, found list"):
        read_object(tmp_path / "list.json")
    assert read_object(tmp_path / "absent.json") == {}
