import json
from dataclasses import replace

import pytest
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from raypipe.errors import InputError
from raypipe.models import tokenizer
from raypipe.models.folder.loading import resolve_model
from raypipe.models.folder.opening import open_tokenizer
from raypipe.models.tokenizer import as_first, read_tokenizer
from raypipe.stages.texts.tokenize import piece_settings


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
    assert "first_tokenizer" not in later.conventions.to_json()
    assert first.conventions.to_json()["first_tokenizer"] is True
    assert "first_tokenizer" not in piece_settings(later, "")
    assert piece_settings(first, "") == {**piece_settings(later, ""), "first_tokenizer": True}
