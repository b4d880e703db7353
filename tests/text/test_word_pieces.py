"""Pieces of remembered words are those of the tokenizer's own call, on any text."""

import itertools
import sys
import unicodedata
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from bert_rules import ASTRAL, SPECIALS, made, own_pieces, token
from counting import Counting
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.tokenizer import as_first
from raypipe.text import word_pieces
from raypipe.text.tokenize import tokenize_batch
from raypipe.text.word_pieces import WordPieces

SETTINGS = [
    {"lowercase": lower, "strip_accents": strip, "handle_chinese_chars": cut, "clean_text": clean}
    for lower in (True, False)
    for strip in (None, True, False)
    for cut in (True, False)
    for clean in (True, False)
]
FRAGMENTS = [
    *SPECIALS,
    *(one.lower() for one in SPECIALS),
    *(f" {one}." for one in SPECIALS[2:]),
    *(
        "the",
        "The",
        "THE",
        "lease",
        "leasing",
        "##ing",
        ",",
        " , ",
        ", ",
        "a,b",
        "[",
        "]",
        "[[SEP]]",
    ),
    *("caf\u00e9", "cafe\u0301", "\u0301", " \u0301", ",\u0338", "=\u0338", "\u2260", "\u037e"),
    *("e\u0323\u0302", "e\u0302\u0323", "\u1e9e\u00df", "\u0130I\u0131", "\u03a3\u03c3\u03c2"),
    *(" ", "  ", "\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u2028", "\u3000"),
    *(
        "\x00",
        "\x7f",
        "\xad",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\ufffd",
        "\ue000",
        "a\u200bb",
        "\ufe0f",
    ),
    *("\u4e2d\u6587", "a\u4e2db", "\uac00\u1100\u1161", "\u3042", "\uff21", *ASTRAL),
    *("x" * 100, "x" * 101, "\u00e9" * 51, "e\u0301" * 51, "\u4e2d" * 120, "x\u0301" * 120),
    *(
        "\u05e9\u05dc",
        "\u0645\u0631",
        "\u0915\u094d\u0937",
        "\u0e01\u0e33",
        "\u201cthe\u201d",
        "\u2014",
    ),
]
TEXTS = st.lists(
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map("".join), max_size=6
)


@cache
def remembering(place):
    """A tokenizer and one that remembers, from one example to the next."""
    tokenizer = made(**SETTINGS[place])
    return tokenizer, WordPieces(tokenizer)


def rows(found):
    flat, offsets = found
    return [flat[a:b].tolist() for a, b in itertools.pairwise(offsets.tolist())]


def check(tokenizer, pieces, texts, max_pieces=1000):
    assert rows(pieces.of(pa.array(texts, pa.string()), max_pieces=max_pieces)) == own_pieces(
        tokenizer, texts, max_pieces
    )


@pytest.mark.fault(33, "50 batches of random texts do too, in a tokenizer that remembers words")
@settings(max_examples=50, deadline=None)
@given(TEXTS, st.integers(0, len(SETTINGS) - 1), st.integers(1, 40))
def test_any_texts_have_the_tokenizers_own_pieces(texts, place, max_pieces):
    check(*remembering(place), texts, max_pieces)


def test_every_fragment_beside_every_other_kind_of_border():
    for place in range(len(SETTINGS)):
        around = ["{}", "the{}lease", " {} ", ",{},", "\u0301{}e", "[{}]", "{0} {0}.{0}"]
        check(*remembering(place), [one.format(mark) for mark in FRAGMENTS for one in around])


@pytest.mark.long
@pytest.mark.parametrize("place", range(len(SETTINGS)))
def test_every_character_of_unicode_has_the_tokenizers_own_pieces(place):
    """All that Python's table names, and every 16th of the others."""
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    named = [code for code in codes if unicodedata.category(chr(code)) not in ("Cn", "Co")]
    for start in range(0, len(every := sorted({*named, *codes[::16]})), 4096):
        near = [chr(code) for code in every[start : start + 4096]]
        texts = [f"e{one}e {one}\u0301,{one}.{one} [{one}]{one}" for one in near]
        check(*remembering(place), texts)


@pytest.mark.long
@settings(max_examples=20_000, deadline=None)
@given(TEXTS, st.integers(0, len(SETTINGS) - 1), st.integers(1, 40))
def test_many_texts_have_the_tokenizers_own_pieces(texts, place, max_pieces):
    check(*remembering(place), texts, max_pieces)


REAL = open_tokenizer(resolve_model("minilm"))
PASSAGES = [
    "A lease is renewed, e.g. every 10 s; caf\u00e9s (of Paris) aren't [SEP] leased.",
    "",
    "the " * 700,
    "\u4e2d\u6587 [MASK]ed",
    " \t\n ",
    "The zebra\u2019s stripes: 40\u201380 \U0001f993!",
] * 3


@pytest.mark.parametrize("slice_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("long_bytes", [0, 30, 1 << 16])
def test_how_texts_are_divided_changes_no_piece(monkeypatch, slice_bytes, long_bytes):
    monkeypatch.setattr(word_pieces, "SLICE_BYTES", slice_bytes)
    monkeypatch.setattr(word_pieces, "LONG_BYTES", long_bytes)
    expected = tokenize_batch(REAL, PASSAGES, max_pieces=512)
    texts = pa.array(PASSAGES)
    chunked = pa.chunked_array([texts[:4], texts[4:4], texts[4:]])
    prefix = pa.array(["before", *PASSAGES, "behind"])
    for one in (texts, chunked, prefix[1:-1]):
        flat, offsets = WordPieces(REAL).of(one, max_pieces=512)
        np.testing.assert_array_equal(flat, expected[0])
        np.testing.assert_array_equal(offsets, expected[1])
        assert (flat.dtype, offsets.dtype) == (np.uint16, np.int64)


@pytest.mark.parametrize("texts", [pa.array([], pa.string()), pa.chunked_array([], pa.string())])
def test_no_texts_are_no_pieces(texts):
    flat, offsets = WordPieces(REAL).of(texts, max_pieces=5)
    assert flat.dtype == np.uint16 and len(flat) == 0 and offsets.tolist() == [0]


@pytest.mark.parametrize(("size", "dtype"), [(65_535, np.uint16), (65_536, np.uint32)])
def test_pieces_are_as_narrow_as_the_vocabulary_allows(size, dtype):
    tokenizer = Tokenizer(models.WordPiece({f"w{n}": n for n in range(size)}, unk_token="w0"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    flat, _ = WordPieces(tokenizer).of(pa.array([f"w{size - 1} w1", "W2"]), max_pieces=5)
    assert flat.dtype == dtype and flat.tolist() == [size - 1, 1, 2]


ADDED = [
    [token("lease")],
    [token("ase")],
    [token("[sep]")],
    [token("THE"), token("##")],
    [token(","), token(".")],
    [token("a\u0301"), token("\u4e2d")],
    [token("lease", single_word=True), token("the", lstrip=True, rstrip=True)],
    [token("Lease", normalized=True)],
    [token("the lease")],
    [token(" ,")],
]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("added", ADDED, ids=lambda added: "|".join(map(str, added)))
def test_added_tokens_are_found_wherever_the_tokenizer_finds_them(added, lowercase):
    tokenizer = made(added=added, lowercase=lowercase)
    words = [
        "Lease",
        "lease",
        "THE",
        "the",
        "the lease",
        "[sep]",
        "[SEP]",
        "a\u0301",
        "A\u0301",
        "##",
    ]
    texts = [a + between + b for a in words for b in words for between in (" ", ",", "", " , ")]
    check(tokenizer, WordPieces(tokenizer), texts)


def test_a_tokenizer_that_knows_no_special_tokens_in_a_text_is_asked():
    tokenizer = as_first(made())
    check(tokenizer, WordPieces(tokenizer), [*FRAGMENTS, "a [SEP] b", "\u4e2d\u6587 [SEP]the"])


def test_a_word_is_tokenised_once_and_only_texts_with_added_tokens_stay_whole():
    counting = Counting(made())
    pieces = WordPieces(counting)
    pieces.of(pa.array(["The lease, the LEASE", "a [SEP] lease", "lease"]), max_pieces=9)
    assert "".join(counting.seen).lower().count("lease") == 2  # as a word, and in the whole text
    assert "a [SEP] lease" in counting.seen
    counting.calls.clear()
    pieces.of(pa.array(["lease, lease. THE"]), max_pieces=9)
    assert counting.seen == [". , "]  # the other words are known


@pytest.mark.fault(32, "of 1 MB of different words the tokenizer sees below 3%, for 512 pieces")
def test_of_a_long_text_of_new_words_the_tokenizer_sees_the_beginning():
    counting = Counting(made())
    text = " ".join(f"w{n}" for n in range(150_000))
    flat, offsets = WordPieces(counting).of(pa.array(["the", text, "the"]), max_pieces=512)
    assert offsets.tolist() == [0, 1, 513, 514] and flat[0] == flat[-1]
    assert sum(map(len, counting.seen)) < 0.03 * len(text)


def test_texts_are_cut_into_words_so_many_bytes_at_a_time(monkeypatch):
    monkeypatch.setattr(word_pieces, "SLICE_BYTES", 5)
    texts = pa.array(["before", *("x" * length for length in (2, 3, 1, 4, 9, 5))])[1:]
    parts = [*word_pieces._slices(texts)]
    assert [len(part) for part in parts] == [2, 2, 1, 1]
    assert [text for part in parts for text in part.to_pylist()] == texts.to_pylist()


def test_other_rules_are_left_to_the_tokenizer():
    counting = Counting(made())
    counting.tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces = WordPieces(counting)
    counting.calls.clear()
    assert rows(pieces.of(pa.array(["the the", "the"]), max_pieces=1)) == [[5], [5]]
    assert counting.seen == ["the the", "the"]
