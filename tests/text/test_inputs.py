import numpy as np

from raypipe.text.inputs import Layout, TextSlice, by_length, make_inputs, taken


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


def test_a_padding_piece_in_a_text_has_its_ids_position_where_positions_count_from_it():
    texts = TextSlice(np.array([7, 1, 1, 8, 1], np.uint16), np.array([0, 4]), np.array([4, 1]))
    packed = make_inputs([texts], Layout(0, (2,), 2, (0,), first_position=2))
    assert packed.ids.tolist() == [0, 7, 1, 1, 8, 2, 0, 1, 2]
    assert packed.positions.tolist() == [2, 3, 1, 1, 4, 5, 2, 1, 3]
    counted = make_inputs([texts], Layout(0, (2,), 2, (0,)))
    assert counted.positions.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2]


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
