import numpy as np

from raypipe.text.inputs import encoder_inputs, input_lengths


def test_inputs_are_cls_pieces_sep_with_positions_from_0():
    flat = np.array([10, 11, 12, 20], np.uint16)
    offsets = np.array([0, 3, 3, 4])
    packed = encoder_inputs(flat, offsets, np.array([2, 1, 0]), limit=2, cls_id=1, sep_id=2)
    assert packed.ids.tolist() == [1, 20, 2, 1, 2, 1, 10, 11, 2]
    assert packed.positions.tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 3]
    assert packed.lengths.tolist() == [3, 2, 4]
    assert input_lengths(offsets, limit=2).tolist() == [4, 2, 3]
