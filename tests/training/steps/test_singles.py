import numpy as np
from raypipe.training.steps.singles import single_inputs

from raypipe.text.pairs import Part


def test_singles_stand_by_length_with_their_segments():
    queries = Part(np.array([7, 8, 9], np.uint16), np.array([1, 0]), np.array([2, 1]))
    passages = Part(np.array([4, 5, 6], np.uint16), np.array([0, 2]), np.array([3, 0]))
    packed, segments, order = single_inputs([queries, passages], [0, 1], cls_id=1, sep_id=2)
    assert order.tolist() == [3, 1, 0, 2] and packed.lengths.tolist() == [2, 3, 4, 5]
    assert packed.ids.tolist() == [1, 2, 1, 7, 2, 1, 8, 9, 2, 1, 4, 5, 6, 2]
    assert packed.positions.tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert segments.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
