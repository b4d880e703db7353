import numpy as np
import pytest

from raypipe.config.training import Negatives
from raypipe.training.negatives import Short, TrainingRun, drawn_examples

RUN = TrainingRun(
    np.zeros(5, np.int32),
    np.array([5, 6, 7, 8, 9]),
    np.arange(1, 6, dtype=np.int32),
    np.array([5, 4, 3, 2, 1], np.float32),
)


@pytest.mark.parametrize(
    ("first", "last", "negatives"),
    [(1, 1, {5}), (4, 4, {8}), (5, 5, {9}), (2, 4, {6, 7, 8}), (4, 9, {8, 9}), (6, 9, set())],
)
def test_a_window_holds_its_first_and_its_last_rank_and_no_other(first, last, negatives):
    window = Negatives(runs=("run",), first=first, last=last, per_example=1, examples=5)
    short = Short()
    found = drawn_examples({0: [1]}, {0: {1}}, [RUN], None, window, seed=0, short=short)
    assert set(found.passage_rows[:, 1].tolist()) == negatives
    assert found.num_examples == len(negatives) and short.without_negatives == 1 - (
        len(negatives) == 5
    )
