"""The one maker of inputs, by layouts of several families."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.models.family import FAMILIES
from raypipe.models.folder.model_folder import open_tokenizer, packaged_folder, resolve_model
from raypipe.text.inputs import Inputs, Layout, TextSlice, by_length, make_inputs, taken
from raypipe.text.prompts import sliced

ROBERTA = {"first": 0, "separators": (2, 2), "last": 2, "first_position": 2}
TEXTS = ["what is a zebra?", "", "It's an animal", "e\u0301 \u4e2d\u6587 caf\u00e9", "a"]
COLUMNS = ("ids", "positions", "segments", "lengths")


def texts_of(*rows, dtype=np.uint16):
    """One text of each input, its pieces as given, with others' pieces between them."""
    flat = np.array([piece for row in rows for piece in (99, *row)] + [99], dtype)
    counts = np.array([len(row) for row in rows], np.int64)
    return TextSlice(flat, np.cumsum(counts + 1) - counts, counts)


def told(inputs):
    return tuple(getattr(inputs, name).tolist() for name in COLUMNS)


@pytest.fixture(scope="module")
def theirs():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(packaged_folder()), local_files_only=True)


@pytest.mark.parametrize("pairs", [False, True])
def test_berts_inputs_are_those_of_transformers_own_tokenizer(theirs, pairs):
    tokenizer = open_tokenizer(resolve_model("minilm"))
    layout = FAMILIES["bert"].layout(tokenizer, (0, 1) if pairs else (0,))
    columns = [TEXTS, [*TEXTS[2:], *TEXTS[:2]]] if pairs else [TEXTS]
    made = sliced(tokenizer, columns, layout)
    start = 0
    for row, length in zip(zip(*columns, strict=True), made.lengths.tolist(), strict=True):
        own = theirs(*[[text] for text in row])  # lists: an empty second text is one, too
        span = slice(start, start + length)
        assert made.ids[span].tolist() == own["input_ids"][0]
        assert made.segments[span].tolist() == own["token_type_ids"][0]
        assert made.positions[span].tolist() == list(range(length))
        start += length
    assert start == len(made.ids) == len(made.segments) == len(made.positions)


def test_a_roberta_pair_has_two_separators_one_segment_and_positions_from_2():
    layout = Layout(**ROBERTA, segments=(0, 0))
    made = make_inputs([texts_of([10, 11], []), texts_of([20], [21, 22])], layout)
    assert layout.num_specials == 4
    assert told(made) == (
        [0, 10, 11, 2, 2, 20, 2, 0, 2, 2, 21, 22, 2],
        [2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6, 7],
        [0] * 13,
        [7, 6],
    )


def test_a_roberta_text_alone_has_no_separator():
    layout = Layout(**ROBERTA, segments=(0,))
    made = make_inputs([texts_of([10, 11], [])], layout)
    assert layout.num_specials == 2
    assert told(made) == ([0, 10, 11, 2, 0, 2], [2, 3, 4, 5, 2, 3], [0] * 6, [4, 2])


def test_a_token_may_be_missing_before_or_after_a_text():
    texts = [texts_of([10, 11], [])]
    after = Layout(None, (), 2, (0,))
    assert told(make_inputs(texts, after)) == ([10, 11, 2, 2], [0, 1, 2, 0], [0] * 4, [3, 1])
    before = Layout(1, (), None, (0,))
    assert told(make_inputs(texts, before)) == ([1, 10, 11, 1], [0, 1, 2, 0], [0] * 4, [3, 1])
    assert after.num_specials == before.num_specials == 1
    both = Layout(None, (7,), None, (0, 3))
    made = make_inputs([texts_of([10, 11], []), texts_of([20], [])], both)
    assert told(made) == ([10, 11, 7, 20, 7], [0, 1, 2, 3, 0], [0, 0, 0, 3, 0], [4, 1])
    assert both.num_specials == 1


def test_separators_stand_in_their_order_and_belong_to_the_text_before():
    layout = Layout(5, (7, 8), 9, (2, 0, 4))
    made = make_inputs([texts_of([10]), texts_of([20, 21]), texts_of([])], layout)
    ids = [5, 10, 7, 8, 20, 21, 7, 8, 9]
    assert told(made) == (ids, list(range(9)), [2, 2, 2, 2, 0, 0, 0, 0, 4], [9])


def test_one_segment_is_that_of_all_tokens_and_wide_ids_stay_whole():
    made = make_inputs([texts_of([70_000], dtype=np.uint32)], Layout(1, (2,), 2, (3,)))
    assert told(made) == ([1, 70_000, 2], [0, 1, 2], [3, 3, 3], [3])
    assert {getattr(made, name).dtype for name in COLUMNS} == {np.dtype(np.int64)}


def test_a_padding_piece_in_a_text_has_its_ids_position_where_positions_count_from_it():
    texts = TextSlice(np.array([7, 1, 1, 8, 1], np.uint16), np.array([0, 4]), np.array([4, 1]))
    packed = make_inputs([texts], Layout(0, (2,), 2, (0,), first_position=2))
    assert packed.ids.tolist() == [0, 7, 1, 1, 8, 2, 0, 1, 2]
    assert packed.positions.tolist() == [2, 3, 1, 1, 4, 5, 2, 1, 3]
    counted = make_inputs([texts], Layout(0, (2,), 2, (0,)))
    assert counted.positions.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2]


def test_as_many_texts_as_segments_are_asked_for():
    with pytest.raises(AssertionError):
        make_inputs([texts_of([1])], Layout(1, (2,), 2, (0, 1)))


def looped(rows, layout):
    """Inputs by a plain loop; a row is the pieces of its texts."""
    columns = [[], [], [], []]
    for row in rows:
        ids, segments = [layout.first], [layout.segments[0]]
        for place, pieces in enumerate(row):
            last = place == len(row) - 1
            own = [*pieces, *([layout.last] if last else layout.separators)]
            ids += own
            segments += [layout.segments[place]] * len(own)
        columns[0] += ids
        position = layout.first_position
        for each in ids:  # as in fairseq: the padding piece is the one before the first position
            padding = each == layout.first_position - 1
            columns[1].append(each if padding else position)
            position += not padding
        columns[2] += segments
        columns[3].append(len(ids))
    return tuple(columns)


PIECES = st.lists(st.integers(10, 60_000), max_size=6)
LAYOUTS = st.integers(1, 3).flatmap(
    lambda texts: st.builds(
        Layout,
        first=st.integers(0, 9),
        separators=st.lists(st.integers(0, 9), max_size=2).map(tuple),
        last=st.integers(0, 9),
        segments=st.tuples(*[st.integers(0, 2)] * texts),
        first_position=st.integers(0, 2),
    )
)


@settings(max_examples=200, deadline=None)
@given(LAYOUTS, st.data())
def test_any_layout_makes_the_inputs_of_a_plain_loop(layout, data):
    row = st.tuples(*[PIECES] * len(layout.segments))
    rows = data.draw(st.lists(row, max_size=5))
    texts = [texts_of(*column) for column in zip(*rows, strict=True)]
    texts = texts or [texts_of()] * len(layout.segments)
    assert told(make_inputs(texts, layout)) == looped(rows, layout)
    counts = [text.counts for text in texts]
    assert layout.lengths(counts).tolist() == [len(sum(r, [])) + layout.num_specials for r in rows]
    order = np.arange(len(rows))[::-1]
    backwards = make_inputs([taken(text, order) for text in texts], layout)
    assert told(backwards) == looped(rows[::-1], layout)


def test_layouts_of_one_batch_stand_by_length_with_their_own_positions_and_segments():
    query = make_inputs([texts_of([10, 11], [12])], Layout(1, (2,), 2, (0,)))
    passage = make_inputs([texts_of([20], [])], Layout(1, (3,), 3, (1,), first_position=5))
    made, order = by_length([query, passage])
    assert order.tolist() == [3, 1, 2, 0]  # equal lengths keep their order
    assert told(made) == (
        [1, 3, 1, 12, 2, 1, 20, 3, 1, 10, 11, 2],
        [5, 6, 0, 1, 2, 5, 6, 7, 0, 1, 2, 3],
        [1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0],
        [2, 3, 3, 4],
    )
    nothing, none = by_length([Inputs(*[np.empty(0, np.int64)] * 4)])
    assert len(nothing.ids) == len(none) == 0


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


def test_singles_stand_by_length_with_their_segments():
    queries = TextSlice(np.array([7, 8, 9], np.uint16), np.array([1, 0]), np.array([2, 1]))
    passages = TextSlice(np.array([4, 5, 6], np.uint16), np.array([0, 2]), np.array([3, 0]))
    layouts = [Layout(1, (2,), 2, (segment,)) for segment in (0, 1)]
    made = [
        make_inputs([text], own) for text, own in zip([queries, passages], layouts, strict=True)
    ]
    packed, order = by_length(made)
    assert order.tolist() == [3, 1, 0, 2] and packed.lengths.tolist() == [2, 3, 4, 5]
    assert packed.ids.tolist() == [1, 2, 1, 7, 2, 1, 8, 9, 2, 1, 4, 5, 6, 2]
    assert packed.positions.tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert packed.segments.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
