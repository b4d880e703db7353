import numpy as np
from training_texts import Texts, pieces

from raypipe.training.batch import gathered


def test_texts_are_gathered_in_order_from_each_source():
    part = gathered(
        [Texts(0, [1, 2, 3]).part, Texts(500, [3, 1]).part],
        np.array([1, 0, 1]),
        np.array([1, 2, 0]),
    )
    assert pieces(part) == [[510], [20, 21, 22], [500, 501, 502]]
