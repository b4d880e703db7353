"""Words and their pieces are remembered, and forgotten when they are too many."""

import gc
import tracemalloc

import numpy as np
import pytest
from bert_rules import made, token, vocabulary
from counting import Counting
from tokenizers import Tokenizer

from raypipe.text import word_pieces as module
from raypipe.text.word_pieces import Memo


@pytest.fixture
def counting():
    return Counting(made())


def pieces(memo, words):
    """Each word's pieces; the memo is asked for the words in bytes."""
    found = memo.rows([word.encode() for word in words])
    assert found.dtype == np.int64
    return [memo.flat[memo.starts[r] : memo.starts[r] + memo.counts[r]].tolist() for r in found]


def own(words):
    return [made().encode(word, add_special_tokens=False).ids for word in words]


def test_words_have_their_pieces_new_or_known(counting):
    memo = Memo(counting, np.uint16)
    first, second = (
        ["the", "\u200b", ",", "leasing", "x" * 101],
        [".", "leasing", "caf\u00e9", "the"],
    )
    assert pieces(memo, first) == own(first) and memo.flat.dtype == np.uint16
    assert pieces(memo, second) == own(second)
    assert pieces(memo, []) == []
    assert counting.seen == [
        ",",
        "the , \u200b , leasing , " + "x" * 101 + " , ",
        ". , caf\u00e9 , ",
    ]


def test_so_many_new_words_are_one_text(counting, monkeypatch):
    monkeypatch.setattr(module, "TOGETHER", 2)
    memo = Memo(counting, np.uint32)
    assert pieces(memo, list("abcde")) == own("abcde") and memo.flat.dtype == np.uint32
    assert counting.seen[1:] == ["a , b , ", "c , d , ", "e , "]


def test_words_that_hold_the_piece_between_words_are_tokenised_alone(monkeypatch):
    """With `,` unknown it is the piece of every unknown word, and of none that is known."""
    body = made().to_str().replace('",":', '"no comma":').replace('"\U0001d165":', '"no clef":')
    counting = Counting(Tokenizer.from_str(body))
    monkeypatch.setattr(module, "TOGETHER", 2)
    memo, words = Memo(counting, np.uint16), ["the", "a", "\U0001d165", ".", ","]
    unknown = [vocabulary()["[UNK]"]]
    assert pieces(memo, words) == [*own(["the", "a"]), unknown, *own(["."]), unknown]
    assert counting.seen[1:] == ["the , a , ", "\U0001d165 , . , ", "\U0001d165", "."]


def test_a_comma_of_several_pieces_or_none_separates_nothing():
    class Strange:
        def encode_batch_fast(self, texts, **settings):
            found = [made().encode(text.replace(",", instead), **settings) for text in texts]
            return found

    for instead in ("\u200b", ",,", ",a"):
        memo = Memo(Strange(), np.uint16)
        assert pieces(memo, ["the", "a", ","]) == [*own(["the", "a"]), *own([instead])]


def test_a_comma_may_be_an_added_token():
    tokenizer = made(added=[token(",")])
    memo = Memo(tokenizer, np.uint16)
    assert pieces(memo, ["the", ",", "a"]) == own(["the", ",", "a"])


def test_all_words_are_forgotten_when_they_take_more_than_allowed(counting, monkeypatch):
    monkeypatch.setattr(module, "MEMO_BYTES", 3 * module.WORD_BYTES + 3 + 3 * 2)
    memo = Memo(counting, np.uint16)
    for words in ("ab", "c", "abc", "d", "a", "a"):  # full with c, too full with d
        assert pieces(memo, list(words)) == own(words)
    assert counting.seen[1:] == ["a , b , ", "c , ", "d , ", "a , "]
    assert len(memo.flat) == len(memo.counts) == len(memo.starts) == 2  # the comma and a


def test_letters_and_pieces_count_as_memory(counting, monkeypatch):
    monkeypatch.setattr(module, "MEMO_BYTES", 3 * module.WORD_BYTES + 3 + 3 * 2 - 1)
    memo = Memo(counting, np.uint16)
    for words in ("ab", "c", "a", "a"):  # too full with c
        assert pieces(memo, list(words)) == own(words)
    assert counting.seen[1:] == ["a , b , ", "c , ", "a , "]


@pytest.mark.slow
def test_memory_is_about_what_is_counted_for_a_word():
    """So MEMO_BYTES is what a full memo takes; the dictionary grows in leaps."""
    memo = Memo(made(), np.uint16)
    gc.collect()
    tracemalloc.start()
    try:
        memo.rows([f"w{n}".encode() for n in range(6_000)])
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.5 * memo._held < taken < 1.2 * memo._held
