"""Word pieces, inputs and batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.models.folder.loading import open_tokenizer, resolve_model
from raypipe.text.batching import batches
from raypipe.text.inputs import Layout, make_inputs
from raypipe.text.pairs import TextSlice, taken
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


@pytest.mark.parametrize("max_pieces", [1, 7, 64, 512])
def test_pieces_equal_the_first_of_the_tokenizers_own_call(max_pieces):
    flat, offsets = tokenize_batch(TOKENIZER, NASTY, max_pieces=max_pieces)
    assert flat.dtype == np.uint16
    for row, text in enumerate(NASTY):
        whole = TOKENIZER.encode(text, add_special_tokens=False).ids[:max_pieces]
        assert flat[offsets[row] : offsets[row + 1]].tolist() == whole


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.integers(1, 8))
def test_any_text_gives_the_tokenizers_own_pieces(text, max_pieces):
    flat, _ = tokenize_batch(TOKENIZER, [text], max_pieces=max_pieces)
    assert flat.tolist() == TOKENIZER.encode(text, add_special_tokens=False).ids[:max_pieces]


def test_inputs_are_cls_pieces_sep_with_positions_from_0():
    flat = np.array([10, 11, 12, 20], np.uint16)
    offsets = np.array([0, 3, 3, 4])
    layout = Layout(1, (2,), 2, (0,))
    texts = TextSlice(flat, offsets[:-1], np.minimum(np.diff(offsets), 2))
    packed = make_inputs([taken(texts, np.array([2, 1, 0]))], layout)
    assert packed.ids.tolist() == [1, 20, 2, 1, 2, 1, 10, 11, 2]
    assert packed.positions.tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 3]
    assert packed.lengths.tolist() == [3, 2, 4]
    assert layout.lengths([texts.counts]).tolist() == [4, 2, 3]


@given(st.lists(st.integers(2, 40), max_size=60), st.integers(1, 100))
def test_batches_hold_every_row_once_within_the_budget_by_length(lengths, budget):
    sizes = np.array(lengths, np.int64)
    found = list(batches(sizes, budget_tokens=budget))
    order = [row for batch in found for row in batch.tolist()]
    assert order == sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    assert all(len(batch) == 1 or sizes[batch].sum() <= budget for batch in found)
