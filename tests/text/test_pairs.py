"""Inputs of rerankers: what is cut, and where each piece stands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel

from raypipe.text.inputs import Layout, TextSlice, make_inputs, piece_counts, taken

CLS, SEP = 101, 102


def counts(query, *passages, **limits):
    arrays = [np.array([n]) for n in passages]
    kept, rest = piece_counts(np.array([query]), arrays, num_specials=2 + len(arrays), **limits)
    return (int(kept[0]), *[int(r[0]) for r in rest])


PAPER_MONO = {"query_limit": 64, "passage_limit": None, "total_limit": 512}
CODE_MONO = {"query_limit": 62, "passage_limit": None, "total_limit": 511}
PAPER_DUO = {"query_limit": 62, "passage_limit": 223, "total_limit": 512}
CODE_DUO = {"query_limit": 62, "passage_limit": None, "total_limit": 510}


def test_monobert_of_the_paper_keeps_64_pieces_of_the_query_and_512_tokens_in_all():
    assert counts(100, 900, **PAPER_MONO) == (64, 512 - 3 - 64)
    assert counts(5, 900, **PAPER_MONO) == (5, 504)
    assert counts(5, 504, **PAPER_MONO) == (5, 504)
    assert counts(5, 30, **PAPER_MONO) == (5, 30)


def test_monobert_of_the_code_counts_specials_in_the_querys_64_and_leaves_one_token_free():
    # The query's part, specials counted, is at most 64; the passage 512 - that - 2 pieces.
    for query in (3, 62, 63, 200):
        with_specials = min(query, 62) + 2
        assert counts(query, 900, **CODE_MONO) == (with_specials - 2, 512 - with_specials - 2)


def test_duobert_of_the_paper_takes_62_223_and_223():
    assert counts(100, 900, 900, **PAPER_DUO) == (62, 223, 223)
    assert counts(10, 900, 40, **PAPER_DUO) == (10, 223, 40)


def test_duobert_of_the_code_halves_what_the_query_leaves():
    # (512 - len(query with specials)) // 2 - 2 pieces each; 222 beside a full query.
    assert counts(100, 900, 900, **CODE_DUO) == (62, 222, 222)
    for query in (1, 2, 33):
        assert counts(query, 900, 900, **CODE_DUO)[1] == (512 - (query + 2)) // 2 - 2


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(5, 40))
def test_longest_first_is_that_of_tokenizers(query, passage, total):
    tokenizer = Tokenizer(WordLevel({"[CLS]": 0, "[SEP]": 1, "w": 2}, unk_token="w"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 1)],
    )
    tokenizer.enable_truncation(total, strategy="longest_first")
    found = tokenizer.encode(" ".join("w" * query), " ".join("w" * passage))
    first = found.type_ids.index(1) - 2
    expected = (first, len(found.ids) - first - 3)
    limits = {"query_limit": None, "passage_limit": None, "total_limit": total}
    assert counts(query, passage, **limits) == expected


@pytest.mark.parametrize("num_passages", [1, 2])
def test_inputs_are_those_of_a_plain_loop(num_passages):
    rng = np.random.default_rng(num_passages)
    flats = [rng.integers(1000, 2000, 400).astype(np.uint16) for _ in range(num_passages + 1)]
    parts = []
    for flat in flats:
        sizes = rng.integers(0, 9, 30)
        sizes[:3] = 0
        parts.append(TextSlice(flat, rng.integers(0, 390, 30), sizes))
    found = make_inputs(parts, Layout(CLS, (SEP,), SEP, tuple(range(len(parts)))))
    ids, positions, segments, lengths = [], [], [], []
    for row in range(30):
        one, segment_ids = [CLS], [0]
        for segment, part in enumerate(parts):
            start = part.starts[row]
            pieces = part.flat[start : start + part.counts[row]].tolist()
            one += [*pieces, SEP]
            segment_ids += [segment] * (len(pieces) + 1)
        ids += one
        segments += segment_ids
        positions += range(len(one))
        lengths.append(len(one))
    assert found.ids.tolist() == ids and found.segments.tolist() == segments
    assert found.positions.tolist() == positions and found.lengths.tolist() == lengths


def test_no_inputs_are_an_empty_batch():
    none = np.empty(0, np.int64)
    part = TextSlice(np.empty(0, np.uint16), none, none)
    found = make_inputs([part, part], Layout(CLS, (SEP,), SEP, (0, 1)))
    assert len(found.ids) == len(found.lengths) == 0


def test_an_input_that_just_fits_is_whole_and_one_more_piece_is_cut_from_the_longer_text():
    limits = {"query_limit": None, "passage_limit": None, "total_limit": 13}  # room for 10
    assert counts(3, 7, **limits) == (3, 7) and counts(3, 8, **limits) == (3, 7)
    assert counts(8, 3, **limits) == (7, 3) and counts(5, 6, **limits) == (5, 5)
    assert counts(6, 6, **limits) == (5, 5) and counts(9, 9, **limits) == (5, 5)
    odd = {**limits, "total_limit": 14}
    assert counts(9, 9, **odd) == (5, 6) and counts(6, 9, **odd) == (5, 6)
    assert counts(9, 6, **odd) == (6, 5)


def test_limits_of_a_passage_hold_beside_the_shares():
    limits = {"query_limit": 4, "passage_limit": 5, "total_limit": 20}  # room for 16 of two
    assert counts(9, 9, 9, **limits) == (4, 5, 5)
    assert counts(9, 9, 2, **{**limits, "passage_limit": 9}) == (4, 6, 2)
    assert counts(1, 9, 9, **{**limits, "passage_limit": None}) == (1, 7, 7)
    assert counts(9, 30, **{**limits, "passage_limit": None}) == (4, 13)


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
