import numpy as np

from raypipe.text.inputs import Layout, TextSlice, make_inputs, piece_counts, taken


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
