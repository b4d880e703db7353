"""Words of texts, and the tokenizers whose texts may be cut into them."""

import numpy as np
import pyarrow as pa
import pytest
from bert_rules import made, token
from tokenizers import models, normalizers, pre_tokenizers

from raypipe.text.word_pieces import Rules, bytes_of, lowered, rows_with, rules_of, words_of


def cut(*texts):
    """The words of each text."""
    words = words_of(*bytes_of(pa.array(texts, pa.string())))
    assert len(set(words.distinct)) == len(words.distinct) and words.ends[0] == 0
    assert words.ends[-1] == len(words.places)
    found = [words.distinct[place].decode() for place in words.places]
    return [found[a:b] for a, b in zip(words.ends[:-1], words.ends[1:], strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\r\n", []),
        ("a", ["a"]),
        (" the  lease\tof\na\rrow ", ["the", "lease", "of", "a", "row"]),
        ("it's a-b.", ["it", "'", "s", "a", "-", "b", "."]),
        ("...", [".", ".", "."]),
        ("caf\u00e9, \u4e2d\u6587\u201cx\u201d", ["caf\u00e9", ",", "\u4e2d\u6587\u201cx\u201d"]),
        ("a\x0b\x00\u2028\u00a0\U0001f993b", ["a\x0b\x00\u2028\u00a0\U0001f993b"]),
    ],
)
def test_white_space_ends_words_and_punctuation_is_a_word(text, expected):
    assert cut(text) == [expected]


def test_every_character_of_ascii_is_white_space_punctuation_or_part_of_a_word():
    for code in range(128):
        character = chr(code)
        alone = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{character}b")
        if character in " \t\r\n":
            assert cut(f"a{character}b") == [["a", "b"]]
        elif len(alone) == 3:
            assert cut(f"a{character}b") == [["a", character, "b"]]
        else:
            assert cut(f"a{character}b") == [[f"a{character}b"]]


def test_a_word_ends_with_its_text():
    assert cut("a", "", "b", " ", "a.", "a") == [["a"], [], ["b"], [], ["a", "."], ["a"]]
    assert cut() == [] and cut("", "") == [[], []]


def test_each_different_word_is_there_once():
    words = words_of(*bytes_of(pa.array(["b a b", "a ."])))
    assert words.distinct == [b"b", b"a", b"."] and words.places.tolist() == [0, 1, 0, 1, 2]


def test_the_bytes_of_a_part_of_an_array_are_that_parts():
    texts = pa.array(["ab", "", "\u00e9", "c"])
    for start in range(5):
        for stop in range(start, 5):
            data, offsets = bytes_of(texts[start:stop])
            expected = [text.as_py() for text in texts[start:stop]]
            assert data.tobytes().decode() == "".join(expected)
            assert np.diff(offsets).tolist() == [len(text.encode()) for text in expected]
            assert offsets[0] == 0 and offsets.dtype == np.int64


def test_an_array_without_texts_needs_no_offsets():
    empty = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"x")])
    data, offsets = bytes_of(empty)
    assert len(data) == 0 and offsets.tolist() == [0]


def test_only_letters_of_ascii_are_lowered():
    data = np.frombuffer(bytes(range(256)), np.uint8)
    assert lowered(data).tobytes() == bytes(range(256)).lower()


def test_rows_with_a_token_are_found():
    data, offsets = bytes_of(pa.array(["x[a]", "", "[a][a]", "b", "[", "a]"]))
    assert rows_with((b"[a]",), data, offsets).tolist() == [0, 2, 4]  # 4: it ends in the next text
    assert rows_with((b"b", b"x"), data, offsets).tolist() == [0, 3]
    assert rows_with((b"aa",), data, offsets).tolist() == []
    data, offsets = bytes_of(pa.array(["x", "a", "aa"]))
    assert rows_with((b"aa",), data, offsets).tolist() == [1, 2]  # one within another
    data, offsets = bytes_of(pa.array(["", "aaa", "", "a"]))
    assert rows_with((b"aa", b"a"), data, offsets).tolist() == [1, 3]


def test_added_tokens_are_looked_for_in_lower_case_if_the_text_is():
    specials = (b"[PAD]", b"[UNK]", b"[CLS]", b"[SEP]", b"[MASK]")
    lower = tuple(content.lower() for content in specials)
    assert rules_of(made(lowercase=False)) == Rules(False, specials)
    assert rules_of(made()) == Rules(True, lower)
    assert rules_of(made(special=False, added=[token("\u00c4B")])) == Rules(
        True, ("\u00c4b".encode(),)
    )
    assert rules_of(made(special=False)) == Rules(True, ())


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": normalizers.Lowercase()},
        {"normalizer": normalizers.Sequence([normalizers.BertNormalizer()])},
        {"normalizer": None},
        {"pre_tokenizer": pre_tokenizers.Whitespace()},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer()])},
        {"pre_tokenizer": None},
        {"model": models.WordLevel({"a": 0}, unk_token="a")},
    ],
    ids=str,
)
def test_a_tokenizer_of_other_rules_may_look_beyond_a_word(change):
    tokenizer = made()
    assert rules_of(tokenizer) is not None
    for name, value in change.items():
        setattr(tokenizer, name, value)
    assert rules_of(tokenizer) is None


def test_texts_that_would_be_cut_or_padded_are_not_cut_into_words():
    for change in ("enable_truncation", "enable_padding"):
        tokenizer = made()
        getattr(tokenizer, change)(**({"max_length": 5} if "trunc" in change else {}))
        assert rules_of(tokenizer) is None


@pytest.mark.parametrize(
    "one", [token("ab", normalized=True), token("a b"), token(" a"), token("\u2003")]
)
def test_added_tokens_that_may_lie_across_words_forbid_to_cut(one):
    assert rules_of(made(added=[one])) is None
