import base64
import json
from dataclasses import replace

import pytest
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

import raypipe
from raypipe.errors import InputError
from raypipe.models import tokenizer
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.tokenizer import as_first, read_tokenizer
from raypipe.stages.tokenize import piece_settings


class PanicException(BaseException):
    """As the tokenizers' library names its own."""


def test_a_librarys_panic_is_an_input_error_and_an_interrupt_goes_its_way(encoder, monkeypatch):
    class Raising:
        error: BaseException = PanicException("broken\nlines")

        @classmethod
        def from_file(cls, path):
            raise cls.error

    monkeypatch.setattr(tokenizer, "Tokenizer", Raising)
    with pytest.raises(InputError, match=r"tokenizer\.json: expected .*, found: broken; put"):
        read_tokenizer(encoder)
    Raising.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        read_tokenizer(encoder)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", "sep", "a", "東", "京", "##京"]


def made():
    """A tokenizer of BERT's rules with Chinese characters as words and within words."""
    found = Tokenizer(WordPiece({piece: n for n, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    found.normalizer = normalizers.BertNormalizer()
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.add_special_tokens(PIECES[:5])
    return found


@pytest.mark.parametrize(
    ("text", "later", "first"),
    [
        ("東京 a", ["東", "京", "a"], ["東", "##京", "a"]),
        ("東a京", ["東", "a", "京"], ["[UNK]"]),  # one word, with no piece ##a
        ("a [SEP] A", ["a", "[SEP]", "a"], ["a", "[", "sep", "]", "a"]),
        ("[SEP]a", ["[SEP]", "a"], ["[", "sep", "]", "a"]),
        ("Á a", ["a", "a"], ["a", "a"]),
    ],
)
def test_berts_first_code_cuts_no_chinese_words_and_knows_no_special_tokens_in_a_text(
    text, later, first
):
    assert made().encode(text, add_special_tokens=False).tokens == later
    assert as_first(made()).encode(text, add_special_tokens=False).tokens == first


def test_words_of_other_rules_are_no_first_tokenizers():
    found = made()
    found.normalizer = normalizers.Lowercase()
    with pytest.raises(InputError, match=r"BERT's normaliser, found Lowercase; name a preset"):
        as_first(found)


def test_only_a_model_that_asks_for_it_gets_the_first_tokenizer_and_another_fingerprint(mono):
    later = resolve_model(str(mono))
    body = json.loads((mono / "raypipe.json").read_text())
    (mono / "raypipe.json").write_text(json.dumps({**body, "first_tokenizer": True}))
    first = resolve_model(str(mono))
    assert first.conventions == replace(later.conventions, first_tokenizer=True)
    assert first.tokenizer_sha256 == later.tokenizer_sha256
    assert open_tokenizer(first).encode_special_tokens
    assert not open_tokenizer(later).encode_special_tokens
    assert later.conventions.to_json()["first_tokenizer"] is False
    assert first.conventions.to_json()["first_tokenizer"] is True
    assert piece_settings(later, "")["first_tokenizer"] is False
    assert piece_settings(first, "") == {**piece_settings(later, ""), "first_tokenizer": True}


SPLIT = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
DOUBLED = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}
BETWEEN = {"type": "Replace", "pattern": {"Regex": ""}, "content": "e"}
LONG = {"type": "Prepend", "prepend": "e" * 64}


def written(folder, **parts):
    body = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**body, **parts}))


def encoding(folder, text, tmp_path):
    """The arguments of a pipeline that encodes this passage, in this process."""
    (tmp_path / "passages.tsv").write_text(f"1\t{text}\n")
    recipe = {
        "format": 1,
        "name": "strange",
        "collection": {"format": "msmarco-v1", "input": "passages.tsv"},
        "models": {"m": {"path": str(folder)}},
        "stages": {"vectors": {"do": "encode", "model": "m"}},
        "resources": {"backend": "inline", "device": "cpu", "threads": 1},
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    return "pipeline", tmp_path / "r.yaml", "--out", tmp_path / "work"


def test_a_tokenizer_that_panics_over_a_text_is_bad_input_wherever_it_is_used(
    encoder, raypipe_here, tmp_path
):
    written(encoder, pre_tokenizer=SPLIT)
    text = "a" * 40 + "b"
    with pytest.raises(InputError, match="tokenizers fails over one of 1 texts .*retry-limit"):
        raypipe.encode([text], str(encoder))
    ended = raypipe_here(*encoding(encoder, text, tmp_path))
    assert ended.returncode == 2, ended.stderr
    assert "fails over one of" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("rules", "fits"),
    [
        ([DOUBLED] * 6, True),
        ([DOUBLED] * 7, False),
        ([BETWEEN] * 7, False),
        ([{**BETWEEN, "pattern": {"String": ""}}] * 7, False),
        ([{"type": "Sequence", "normalizers": [DOUBLED] * 40}], False),
        ([LONG], False),
        ([{**DOUBLED, "content": "e" * 65}], False),
        ([{**DOUBLED, "pattern": {"String": "eeee"}, "content": "e" * 200}], True),
        ([{"type": "NFKC"}, {"type": "Lowercase"}] * 9, True),
    ],
)
def test_a_normaliser_that_would_fill_the_memory_is_refused_before_any_text(
    encoder, raypipe_here, rules, fits
):
    written(encoder, normalizer={"type": "Sequence", "normalizers": rules})
    shown = raypipe_here("model", "show", encoder)
    assert (shown.returncode, "Traceback" in shown.stderr) == (0 if fits else 2, False)
    refused = "normalizer: expected replacements that make at most 64 characters of one, found up"
    assert (refused in shown.stderr) is not fits


def test_a_table_of_characters_with_one_of_many_is_refused_and_unicodes_own_is_not(
    encoder, raypipe_here
):
    for words, fits in (("e\0" + "f" * 32 + "\0", True), ("e\0" + "f" * 65 + "\0", False)):
        table = base64.b64encode((4).to_bytes(4, "little") + bytes(4) + words.encode()).decode()
        written(encoder, normalizer={"type": "Precompiled", "precompiled_charsmap": table})
        shown = raypipe_here("model", "show", encoder)
        assert (shown.returncode == 0) is fits and "Traceback" not in shown.stderr
