"""A folder with a sentencepiece model alone has the tokenizer that transformers makes of it."""

import json
import shutil

import pytest
from sentencepiece import SentencePieceProcessor
from stage_inputs import parts_of
from tiny_t5 import make_tiny_t5

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.scorer import load_scorer
from raypipe.models.tokenizer import read_tokenizer, tokenizer_file, tokenizer_sha256


@pytest.fixture
def model(t5_pieces, tmp_path):
    """A T5 with that tokenizer, and no tokenizer.json."""
    make_tiny_t5(tmp_path / "m", vocab_size=200)
    (tmp_path / "m" / "tokenizer.json").unlink()
    shutil.copyfile(t5_pieces, tmp_path / "m" / "spiece.model")
    return tmp_path / "m"


def test_it_scores_as_with_the_tokenizer_json_that_transformers_saves(model):
    assert tokenizer_file(model).name == "spiece.model"
    found = read_tokenizer(model)
    own = SentencePieceProcessor(model_file=str(model / "spiece.model"))
    for text in ("the zebra", "", "Query: zebras  rank ", "true", "東京"):
        assert found.encode(text).ids == [*own.encode(text), 1]
    opened = resolve_model(str(model))
    query, passage = parts_of(opened, ["the lease"], ["a zebra"])
    before = load_scorer(opened).score(query, [passage])
    found.save(str(model / "tokenizer.json"))
    assert tokenizer_file(model).name == "tokenizer.json"
    again = resolve_model(str(model))
    assert again.tokenizer_sha256 == opened.tokenizer_sha256 == tokenizer_sha256(found)
    assert load_scorer(again).score(query, [passage]) == before


@pytest.mark.parametrize("kind", ["albert", None])
def test_another_architecture_is_told_how_to_make_its_tokenizer_json(model, kind):
    (model / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(InputError) as caught:
        read_tokenizer(model)
    told = str(caught.value)
    assert told.startswith(f"{model / 'spiece.model'}: expected tokenizer.json; spiece.model alone")
    assert f"for model_type t5 and mt5, found {kind!r}" in told and "save_pretrained" in told


def test_a_file_that_is_no_sentencepiece_model_is_refused(model):
    (model / "spiece.model").write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"spiece\.model: expected a sentencepiece model, and"):
        read_tokenizer(model)


def test_a_folder_with_a_vocabulary_beside_it_is_read_by_that(model):
    (model / "vocab.txt").write_text("[PAD]\n")
    assert tokenizer_file(model).name == "vocab.txt"
