"""Words as frequent as in a collection, and made-up ones for the rest."""

from collections import Counter

import numpy as np
import pytest

from raypipe.errors import InputError
from rehearsal import words as module
from rehearsal.words import made_up, words_like

TEXTS = ["the Cat, the hat", "the cat sat the"]


def test_words_are_split_at_white_space_and_counted_as_they_are_written():
    words = words_like(TEXTS)
    assert words.seen == ["the", "Cat,", "hat", "cat", "sat"]
    assert words.counts.tolist() == [4, 1, 1, 1, 1]


def test_the_share_of_unseen_words_is_that_of_words_that_appear_once():
    assert words_like(TEXTS).unseen == 4 / 8


def test_words_are_drawn_by_their_frequency_and_unseen_ones_by_zipf(monkeypatch):
    monkeypatch.setattr(module, "NUM_UNSEEN", 8)
    words = words_like(["a a a b b c"])  # unseen: 1 of 6
    num = 240_000
    counts = Counter(words.draw(np.random.default_rng(5), num).tolist())
    for number, share in ((0, 3 / 6), (1, 2 / 6), (2, 1 / 6)):
        assert counts[number] / num == pytest.approx(share * 5 / 6, abs=0.005)
    # The integral of 1/r from r to r+1, over that from 1 to 8: log2((r+1)/r) / 3.
    for rank in (1, 2, 7):
        expected = np.log2((rank + 1) / rank) / 3 / 6
        assert counts[2 + rank] / num == pytest.approx(expected, abs=0.003)
    assert max(counts) == 2 + 7


def test_every_number_has_its_word(monkeypatch):
    monkeypatch.setattr(module, "NUM_UNSEEN", 5000)
    words = words_like(["x y y"])
    listed = words.listed()
    assert listed[:2] == ["x", "y"] and listed[2:5] == [made_up(0), made_up(1), made_up(2)]
    assert len(set(listed)) == len(listed) == 5002
    assert all(len(word) >= 6 for word in listed[2:])


@pytest.mark.parametrize("texts", [[], ["", "  "]])
def test_a_collection_without_words_cannot_be_imitated(texts):
    with pytest.raises(InputError, match="expected passages with words; found none"):
        words_like(texts)
