"""Cuts and batches exactly at their bounds."""

import numpy as np
import pytest
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel

from raypipe.text import tokenize
from raypipe.text.batching import batches
from raypipe.text.inputs import Layout, make_inputs
from raypipe.text.pairs import TextSlice, piece_counts, taken
from raypipe.text.slicing import first_difference as compared
from raypipe.text.tokenize import tokenize_batch


def test_a_text_is_cut_behind_what_is_wanted_at_the_nearest_white_space():
    assert tokenize._cut("ab cd ef", 3) == "ab cd"
    assert tokenize._cut("ab cd ef", 2) == "ab"
    assert tokenize._cut("ab cd\nef gh", 3) == tokenize._cut("ab cd ef\ngh", 3) == "ab cd"
    assert tokenize._cut("ab cdef", 3) == "ab cdef"  # no end behind
    assert tokenize._cut("ab c", 4) == "ab c" and tokenize._cut("ab c d", 4) == "ab c"


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (5, [[1], [3], [0], [2]]),
        (6, [[1, 3], [0], [2]]),
        (9, [[1, 3], [0], [2]]),
        (10, [[1, 3, 0], [2]]),
        (14, [[1, 3, 0], [2]]),
        (17, [[1, 3, 0, 2]]),
        (1, [[1], [3], [0], [2]]),
    ],
)
def test_batches_are_filled_to_the_budget_and_not_beyond(budget, expected):
    found = batches(np.array([4, 3, 7, 3]), budget_tokens=budget)
    assert [batch.tolist() for batch in found] == expected


def test_batches_of_nothing_are_none():
    assert list(batches(np.empty(0, np.int64), budget_tokens=5)) == []


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


def test_a_long_text_is_read_on_until_it_gives_its_pieces_and_no_further(monkeypatch):
    """One piece in 100 characters: the first cut, 3 x 32 characters on, gives too few."""
    seen = []

    class Told:
        def __init__(self, tokenizer):
            self.tokenizer = tokenizer

        def __getattr__(self, name):
            return getattr(self.tokenizer, name)

        def encode_batch_fast(self, texts, **settings):
            seen.append([len(text) for text in texts])
            return self.tokenizer.encode_batch_fast(texts, **settings)

    text = (" " * 98 + "w1 ") * 50
    flat, _ = tokenize_batch(Told(words(9)), [text, "w2 w3"], max_pieces=3)
    assert flat.tolist() == [1, 1, 1, 2, 3]
    # 96 characters wanted at first, then 192, then 384; each is cut at the next white space.
    assert seen == [[96, 5], [192], [384]]  # a text that was not cut is not read again


def bert(**templates):
    tokenizer = Tokenizer(WordLevel({"[CLS]": 0, "[SEP]": 1, "a": 2, "b": 3}, unk_token="b"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if templates:
        special = [("[CLS]", 0), ("[SEP]", 1)]
        tokenizer.post_processor = processors.TemplateProcessing(
            **templates, special_tokens=special
        )
    return tokenizer


def first_difference(tokenizer, texts, pairs=False):
    single, pair = Layout(0, (1,), 1, (0,)), Layout(0, (1,), 1, (0, 1))
    return compared(tokenizer, texts, single, pair if pairs else None)


def test_a_tokenizer_without_inputs_of_its_own_has_nothing_to_compare():
    assert first_difference(bert(), ["a", "b"], pairs=True) is None
    assert first_difference(bert(single="$A"), []) is None
    assert first_difference(bert(single="$A"), ["a"]) == "a"


def test_pairs_are_compared_with_the_next_text_and_the_last_with_the_first():
    """This one leaves out the second [SEP] of pairs; singles are as they should be."""
    other = bert(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1")
    assert first_difference(other, ["a b", "a"], pairs=True) == "a b"
    assert first_difference(other, ["a b", "a"], pairs=False) is None
    assert first_difference(other, ["a b", "a"]) is None
    same = bert(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1")
    assert first_difference(same, ["a b", "a", "", "b b b"], pairs=True) is None


def counts(query, *passages, **limits):
    limits = {"num_specials": 2 + len(passages), **limits}
    kept, rest = piece_counts(np.array([query]), [np.array([n]) for n in passages], **limits)
    return [int(kept[0]), *(int(each[0]) for each in rest)]


def test_an_input_that_just_fits_is_whole_and_one_more_piece_is_cut_from_the_longer_text():
    limits = {"query_limit": None, "passage_limit": None, "total_limit": 13}  # room for 10
    assert counts(3, 7, **limits) == [3, 7] and counts(3, 8, **limits) == [3, 7]
    assert counts(8, 3, **limits) == [7, 3] and counts(5, 6, **limits) == [5, 5]
    assert counts(6, 6, **limits) == [5, 5] and counts(9, 9, **limits) == [5, 5]
    odd = {**limits, "total_limit": 14}
    assert counts(9, 9, **odd) == [5, 6] and counts(6, 9, **odd) == [5, 6]
    assert counts(9, 6, **odd) == [6, 5]


def test_limits_of_a_passage_hold_beside_the_shares():
    limits = {"query_limit": 4, "passage_limit": 5, "total_limit": 20}  # room for 16 of two
    assert counts(9, 9, 9, **limits) == [4, 5, 5]
    assert counts(9, 9, 2, **{**limits, "passage_limit": 9}) == [4, 6, 2]
    assert counts(1, 9, 9, **{**limits, "passage_limit": None}) == [1, 7, 7]
    assert counts(9, 30, **{**limits, "passage_limit": None}) == [4, 13]


def test_parts_taken_keep_their_order_and_lengths_count_specials():
    flat = np.arange(10, dtype=np.uint16)
    part = TextSlice(flat, np.array([0, 3, 5]), np.array([3, 2, 4]))
    some = taken(part, np.array([2, 0]))
    assert some.starts.tolist() == [5, 0] and some.counts.tolist() == [4, 3]
    other = taken(part, np.array([1, 1]))
    single, pair = Layout(90, (91,), 91, (0,)), Layout(90, (91,), 91, (0, 1))
    assert single.lengths([some.counts]).tolist() == [6, 5]
    assert pair.lengths([some.counts, other.counts]).tolist() == [9, 8]
    made = make_inputs([some, other], pair)
    assert made.ids.tolist() == [90, 5, 6, 7, 8, 91, 3, 4, 91, 90, 0, 1, 2, 91, 3, 4, 91]
    assert made.segments.tolist() == [0] * 6 + [1] * 3 + [0] * 5 + [1] * 3
