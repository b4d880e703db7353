"""What two files of a tokenizer say of the tokens around a text."""

import json
import re

import pytest
from drawn_models import ENCODER, make, opened
from tokenizers import Tokenizer, processors

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import ends_problems


def says(folder, **stated):
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return ends_problems(folder, tokenizer, {"model_type": "qwen3"})


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({}, []),
        ({"add_bos_token": False, "add_eos_token": False}, []),
        ({"add_eos_token": True}, []),
        ({"add_bos_token": True}, ["add_bos_token: expected none, .* before a text, found true"]),
        ({"add_bos_token": "yes"}, []),
    ],
)
def test_what_is_asked_for_and_not_there_is_told(tmp_path, stated, told):
    make(tmp_path, "qwen3")  # it has a token after a text, and none before
    found = says(tmp_path, **stated)
    assert len(found) == len(told)
    for problem, pattern in zip(found, told, strict=True):
        assert re.search(pattern, problem)


def test_an_end_that_only_the_configuration_has_is_refused_before_any_work(tmp_path):
    """As in e5-mistral-7b-instruct, whose tokenizer.json adds only a beginning."""
    make(tmp_path, "mistral")
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    opened(tmp_path, **ENCODER)
    (tmp_path / "tokenizer_config.json").write_text('{"add_eos_token": true}')
    with pytest.raises(InputError, match="add_eos_token: expected none, .* after a text") as told:
        opened(tmp_path, **ENCODER)
    assert list(told.value.problems) == describe(str(tmp_path), None).problems


def test_several_tokens_at_an_end_and_a_file_that_is_no_json_are_told_by_name(tmp_path):
    make(tmp_path, "qwen3")
    opened(tmp_path, **ENCODER)
    file = tmp_path / "tokenizer_config.json"
    file.write_text('{"add_eos_token": tru')
    assert any(f"{file}: expected JSON" in told for told in describe(str(tmp_path), None).problems)
    with pytest.raises(InputError, match=f"{file}: expected JSON"):
        opened(tmp_path, **ENCODER)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    twice = processors.TemplateProcessing("$A </s> </s>", special_tokens=[("</s>", 2)])
    tokenizer.post_processor = twice
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    file.write_text('{"add_eos_token": true}')
    with pytest.raises(InputError) as caught:
        opened(tmp_path, **ENCODER)
    (told,) = caught.value.problems
    assert told.startswith(f"{tmp_path}: the tokenizer's own inputs have more than one special")
    assert told in describe(str(tmp_path), None).problems


def test_an_encoder_that_reads_both_ways_is_not_asked(tmp_path):
    make(tmp_path, "electra")
    (tmp_path / "tokenizer_config.json").write_text('{"add_eos_token": true}')
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing("$A")
    assert ends_problems(tmp_path, tokenizer, {"model_type": "electra"}) == []
    tokenizer.post_processor = None
    assert ends_problems(tmp_path, tokenizer, {"model_type": "qwen3"}) == []
