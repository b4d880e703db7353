"""Pieces of a tokenizer, as many as are wanted."""

import numpy as np
import pytest
from counting import Counting
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.text import tokenize
from raypipe.text.tokenize import tokenize_batch

TOKENIZER = open_tokenizer(resolve_model("minilm"))


NASTY = [
    "",
    "   ",
    "zebra crossing",
    "e\u0301 caf\u00e9",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\U0001f993\U0001f468\u200d\U0001f469",
    "tab\tnewline\nline\u2028sep\u0085nul\x00",
    "\u4e2d\u6587\u5b57" * 300,
    "word " * 5000,
    "x" * 100_000,
    "\u0301" * 50_000 + " tail of words",
    ("long" * 50 + " ") * 400,
]


@pytest.mark.fault(
    33, "12 of 12 nasty texts have the pieces of the tokenizer's own call, at 4 lengths"
)
@pytest.mark.parametrize("max_pieces", [1, 7, 64, 512])
def test_pieces_equal_the_first_of_the_tokenizers_own_call(max_pieces):
    flat, offsets = tokenize_batch(TOKENIZER, NASTY, max_pieces=max_pieces)
    assert flat.dtype == np.uint16
    for row, text in enumerate(NASTY):
        whole = TOKENIZER.encode(text, add_special_tokens=False).ids[:max_pieces]
        assert flat[offsets[row] : offsets[row + 1]].tolist() == whole


@pytest.mark.slow
@pytest.mark.fault(33, "60 random texts do as well")
@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.integers(1, 8))
def test_any_text_gives_the_tokenizers_own_pieces(text, max_pieces):
    flat, _ = tokenize_batch(TOKENIZER, [text], max_pieces=max_pieces)
    assert flat.tolist() == TOKENIZER.encode(text, add_special_tokens=False).ids[:max_pieces]


def test_a_text_is_cut_behind_what_is_wanted_at_the_nearest_white_space():
    assert tokenize._cut("ab cd ef", 3) == "ab cd"
    assert tokenize._cut("ab cd ef", 2) == "ab"
    assert tokenize._cut("ab cd\nef gh", 3) == tokenize._cut("ab cd ef\ngh", 3) == "ab cd"
    assert tokenize._cut("ab cdef", 3) == "ab cdef"  # no end behind
    assert tokenize._cut("ab c", 4) == "ab c" and tokenize._cut("ab c d", 4) == "ab c"


def words(size, **special):
    vocabulary = {f"w{n}": n for n in range(size)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


@pytest.mark.parametrize(("size", "dtype"), [(65_535, np.uint16), (65_536, np.uint32)])
def test_pieces_are_as_narrow_as_the_vocabulary_allows(size, dtype):
    flat, offsets = tokenize_batch(words(size), [f"w{size - 1} w1", "", "w2"], max_pieces=5)
    assert flat.dtype == dtype and offsets.dtype == np.int64
    assert flat.tolist() == [size - 1, 1, 2] and offsets.tolist() == [0, 2, 2, 3]


def test_no_texts_are_no_pieces():
    flat, offsets = tokenize_batch(words(9), [], max_pieces=5)
    assert len(flat) == 0 and offsets.tolist() == [0]


@pytest.mark.fault(32, "a text is read on only until it has given its word pieces")
def test_a_long_text_is_read_on_until_it_gives_its_pieces_and_no_further():
    """One piece in 100 characters: the first cut, 3 x 32 characters on, gives too few."""
    text = (" " * 98 + "w1 ") * 50
    counting = Counting(words(9))
    flat, _ = tokenize_batch(counting, [text, "w2 w3"], max_pieces=3)
    assert flat.tolist() == [1, 1, 1, 2, 3]
    # 96 characters wanted at first, then 192, then 384; each is cut at the next white space.
    seen = [[len(one) for one in call] for call in counting.calls]
    assert seen == [[96, 5], [192], [384]]  # a text that was not cut is not read again


@pytest.mark.fault(32, "of 20 passages of 1 MB the tokenizer sees below 2%, for 512 pieces each")
def test_of_passages_of_a_megabyte_the_tokenizer_sees_the_beginning():
    counting = Counting(TOKENIZER)
    text = "a passage of words " * (1_000_000 // 19)
    _, offsets = tokenize_batch(counting, [text] * 20, max_pieces=512)
    assert set(np.diff(offsets)) == {512} and sum(map(len, counting.seen)) < 0.02 * 20 * len(text)
