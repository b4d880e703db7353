import numpy as np
import pytest

from raypipe.errors import InputError
from raypipe.ranking.order import check_finite, order, ranks

NONE = np.empty(0, np.int64)


def ints(*values):
    return np.array(values, np.int64)


def test_ranks_of_no_lines_of_one_and_of_changing_groups():
    assert ranks(NONE).tolist() == [] and ranks(NONE).dtype == np.int32
    assert ranks(ints(4)).tolist() == [1]
    assert ranks(ints(4, 4, 2, 4, 4, 4)).tolist() == [1, 2, 1, 1, 2, 3]
    assert order(np.empty(0, np.float32), NONE).tolist() == []


def test_scores_that_are_not_finite_are_named_up_to_ten():
    scores = np.zeros(14, np.float32)
    check_finite(scores)
    scores[2:] = np.nan
    with pytest.raises(InputError) as caught:
        check_finite(scores)
    assert "12 of 14" in str(caught.value)
    assert "11: nan" in str(caught.value) and "12: nan" not in str(caught.value)
